"""HTML tables of rows for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice

SHOWN = 20
"""The maximum number of rows in a table."""


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return the first rows as a table. At most one row more than shown is read."""
    first = list(islice(rows, SHOWN + 1))
    body = "".join(
        f"<tr>{''.join(_cell(row.get(each)) for each in columns)}</tr>" for row in first[:SHOWN]
    )
    head = "".join(f"<th>{escape(each)}</th>" for each in columns)
    more = f" (the first {SHOWN})" if len(first) > SHOWN else ""
    return (
        f"<table><caption>{escape(caption)}{more}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: object) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"
