"""Text output: sizes, times, names and tables."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from math import log

from sparklake.graveler.times import text_of_second
from sparklake.visible import COMMIT_DIGITS, count_of, visible_line

_UNITS = ("kB", "MB", "GB", "TB", "PB")
_STEP = 1000
SIGNS = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "conflict": ("!", "magenta"),
}
"""The sign and the colour of each kind of differences."""

_NAME_COLUMNS = 14
_PIPE_COLUMNS = 1 << 20
"""The table width if stdout is not a terminal: nothing is wrapped."""


one_line, date = visible_line, text_of_second


def first_line(text: str) -> str:
    return visible_line(next(iter(text.strip().splitlines()), ""))


def short(commit_id: str) -> str:
    return commit_id[:COMMIT_DIGITS]


def size(count: int) -> str:
    if count < _STEP:
        return f"{count} B"
    power = min(int(log(count, _STEP)), len(_UNITS))
    return f"{count / _STEP**power:.1f} {_UNITS[power - 1]}"


def total(counts: Mapping[str, int]) -> str:
    """Return the numbers of differences by kind, without zeros."""
    words = [
        count_of(counts[kind], kind, "conflicts" if kind == "conflict" else kind)
        for kind in SIGNS
        if counts[kind]
    ]
    return ", ".join(words) or "no difference"


def change_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in ("added", "removed", "changed"))


def field_lines(fields: Mapping[str, str]) -> str:
    """Return names and values as two columns; further lines of a value are indented."""
    width = max(_NAME_COLUMNS, *(len(name) + 2 for name in fields))
    return "\n".join(
        f"{head:<{width}}{line}".rstrip()
        for name, value in fields.items()
        for head, line in zip(chain([name], repeat("")), value.split("\n"), strict=False)
    )


def rendered_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, has_colour: bool
) -> str:
    """Return a table: with rules on a terminal, otherwise in plain columns."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if has_colour else None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible_line(cell)) for cell in row))
    page = io.StringIO()
    width = None if has_colour else _PIPE_COLUMNS
    console = Console(file=page, width=width, force_terminal=has_colour, no_color=not has_colour)
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())
