"""The progress bar."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text


class _RangeColumn(ProgressColumn):
    """A column with the number of ranges, and their total if it is known."""

    def render(self, task: Task) -> Text:
        """Return the text next to the bar."""
        if task.total is not None:
            return Text(f"{task.completed:,.0f} of {task.total:,.0f} ranges")
        return Text(f"{task.completed:,.0f} ranges" if task.completed else "")


def range_bar() -> Progress:
    """Return a bar on stderr that disappears at its end."""
    # Markup is off: a name may contain brackets.
    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(bar_width=30), _RangeColumn())
    # Output to stdout is not redirected.
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
