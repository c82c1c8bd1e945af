"""Progress on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 0.5
"""The delay before progress is shown."""


class Meter:
    """A progress display on stderr: the current step, and its ranges as the engine reports them."""

    def __init__(self) -> None:
        self._changing = Lock()
        self._shown: tuple[Progress, TaskID] | None = None
        self._total: int | None = None
        self._done = 0

    def begin(self, ranges: int) -> None:
        """Start to count a plan that reads this number of ranges."""
        with self._changing:
            self._total, self._done = ranges or None, 0
            self._update()

    def advance(self, ranges: int) -> None:
        """Add ranges that have been read."""
        with self._changing:
            self._done += ranges
            self._update()

    @contextmanager
    def showing(self, text: str) -> Iterator[None]:
        """Show a text and the count after a delay of `PATIENCE_SECONDS`."""
        self._total, self._done = None, 0
        late = Timer(PATIENCE_SECONDS, self._show, [text])
        late.daemon = True
        late.start()
        try:
            yield
        finally:
            late.cancel()
            # The timer may be about to show something.
            late.join()
            self.hide()

    def hide(self) -> None:
        """Remove the progress line."""
        with self._changing:
            if self._shown is not None:
                self._shown[0].stop()
                self._shown = None

    def _show(self, text: str) -> None:
        # Lazy import: quick commands show no progress.
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
