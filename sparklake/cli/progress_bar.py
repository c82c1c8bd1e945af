"""The progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.table import Column
from rich.text import Text

from sparklake.cli.text import size
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.cli.progress import Count


class _NameColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


class _CountColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        count: Count = task.fields["count"]
        if count.began:
            return Text(", ".join(_objects(count, task)))
        if count.total_ranges is not None:
            return Text(f"{count.ranges:,} of {count.total_ranges:,} ranges")
        return Text(f"{count.ranges:,} ranges" if count.ranges else "")


def _objects(count: Count, task: Task) -> Iterator[str]:
    if count.total is None:
        yield count_of(count.objects, "object")
        yield from [size(count.size)] if count.size else []
    else:
        yield f"{count.objects:,} of {count_of(count.total.objects, 'object')}"
        yield f"{size(count.size)} of {size(count.total.size)}"
    # Rich has no rate before the second report.
    speed = task.speed or task.completed / max(monotonic() - count.began, 0.001)
    if task.completed:
        yield f"{size(int(speed))}/s" if count.size else f"{int(speed):,} objects/s"
    if count.total is not None and 0 < task.completed < count.total.size:
        seconds = (count.total.size - task.completed) / speed
        yield f"{timedelta(seconds=int(seconds))} left"


def count_bar() -> Progress:
    count = _CountColumn(table_column=Column(no_wrap=True))
    columns = (SpinnerColumn(), _NameColumn(), BarColumn(bar_width=30), count)
    # Output to stdout is not redirected.
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
