"""What a terminal shows while something takes its time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 0.5
"""How long a person waits before a terminal should say what for."""


class Meter:
    """Shows on stderr what is being done, and how many ranges of it; is told so by the engine."""

    def __init__(self) -> None:
        self._changing = Lock()
        self._shown: tuple[Progress, TaskID] | None = None
        self._total: int | None = None
        self._done = 0

    def begin(self, ranges: int) -> None:
        """Note that a plan starts which reads some number of ranges."""
        with self._changing:
            self._total, self._done = ranges or None, 0
            self._update()

    def advance(self, ranges: int) -> None:
        """Note that so many ranges more have been read."""
        with self._changing:
            self._done += ranges
            self._update()

    @contextmanager
    def showing(self, text: str) -> Iterator[None]:
        """Show a text and the count, once that takes longer than a person likes to wait."""
        self._total, self._done = None, 0
        late = Timer(PATIENCE_SECONDS, self._show, [text])
        late.daemon = True
        late.start()
        try:
            yield
        finally:
            late.cancel()
            # It may be about to show something.
            late.join()
            self.hide()

    def hide(self) -> None:
        """Give the line back to others."""
        with self._changing:
            if self._shown is not None:
                self._shown[0].stop()
                self._shown = None

    def _show(self, text: str) -> None:
        # Not at the top: a quick command has no use for it.
        from sparklake.cli.progress_bar import range_bar

        with self._changing:
            bar = range_bar()
            self._shown = bar, bar.add_task(text, total=None)
            self._update()
            bar.start()

    def _update(self) -> None:
        if self._shown is not None:
            bar, task = self._shown
            bar.update(task, total=self._total, completed=self._done)
