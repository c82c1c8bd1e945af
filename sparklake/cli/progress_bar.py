"""How progress is drawn."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text


class _RangeColumn(ProgressColumn):
    """Counts ranges, and says of how many where that is known."""

    def render(self, task: Task) -> Text:
        """Return what stands beside the bar."""
        if task.total is not None:
            return Text(f"{task.completed:,.0f} of {task.total:,.0f} ranges")
        return Text(f"{task.completed:,.0f} ranges" if task.completed else "")


def range_bar() -> Progress:
    """Return a bar on stderr that leaves nothing behind."""
    # A name may have brackets, which would be markup.
    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(bar_width=30), _RangeColumn())
    # What is written to stdout meanwhile stays there.
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
