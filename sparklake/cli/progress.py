"""Progress on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock, Timer
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from sparklake.engine.base import Amount

PATIENCE_SECONDS = 0.5
"""The delay before progress is shown."""


@dataclass(slots=True)
class Count:
    """The progress of a step, in ranges, or in objects and bytes. `began` is monotonic seconds."""

    ranges: int = 0
    total_ranges: int | None = None
    objects: int = 0
    size: int = 0
    total: Amount | None = None
    began: float = 0.0

    @property
    def done(self) -> int:
        if not self.began:
            return self.ranges
        return self.objects if self.total is None and not self.size else self.size

    @property
    def end(self) -> int | None:
        if not self.began:
            return self.total_ranges
        return None if self.total is None else self.total.size


class Meter:
    """A progress display on stderr: the current step, and its count as the engine reports it."""

    def __init__(self) -> None:
        self._changing = Lock()
        self._shown: tuple[Progress, TaskID] | None = None
        self._is_watched = False
        self._count = Count()

    def begin(self, ranges: int) -> None:
        self._begin(Count(total_ranges=ranges or None))

    def advance(self, ranges: int) -> None:
        with self._changing:
            self._count.ranges += ranges
            self._update()

    def begin_objects(self, total: Callable[[], Amount | None]) -> None:
        # Without a terminal, nobody waits for the total.
        self._begin(Count(total=total() if self._is_watched else None, began=monotonic()))

    def advance_objects(self, objects: int, size: int) -> None:
        with self._changing:
            self._count.objects += objects
            self._count.size += size
            self._update()

    @contextmanager
    def showing(self, text: str) -> Iterator[None]:
        """Show a text and the count after a delay of `PATIENCE_SECONDS`."""
        self._is_watched = True
        self._begin(Count())
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
            self._is_watched = False

    def hide(self) -> None:
        with self._changing:
            if self._shown is not None:
                self._shown[0].stop()
                self._shown = None

    def _show(self, text: str) -> None:
        # Lazy import: quick commands show no progress.
        from sparklake.cli.progress_bar import count_bar

        with self._changing:
            bar = count_bar()
            self._shown = bar, bar.add_task(text, total=None, count=Count())
            self._update()
            bar.start()

    def _begin(self, count: Count) -> None:
        with self._changing:
            self._count = count
            if self._shown is not None:
                bar, task = self._shown
                bar.refresh()
                # A new task, because a total cannot become unknown.
                text = bar.tasks[0].description
                bar.remove_task(task)
                self._shown = bar, bar.add_task(text, total=None, count=count)
            self._update()

    def _update(self) -> None:
        if self._shown is not None:
            bar, task = self._shown
            count = replace(self._count)
            bar.update(task, total=count.end, completed=count.done, count=count)
