"""The notebook magics `%lake` and `%%lake`, loaded with `%load_ext sparklake`."""

from __future__ import annotations

from functools import cache
from typing import Any

from sparklake._html import SHOWN, html_table
from sparklake.errors import InvalidInputError
from sparklake.lake import Lake, connect


def register_magics(shell: Any) -> None:
    """Register the magics. They use the notebook's variable `lake`, or else connect to a lake.

    `%%lake NAME` also assigns the last DataFrame to a variable.
    """

    def lake(line: str, cell: str | None = None) -> None:
        """Run SQL over tables at refs, and show the rows."""
        # Lazy import: it needs the extra `sql`.
        from sparklake.sql.tokens import split

        own = shell.user_ns.get("lake")
        name = line.strip() if cell is not None else ""
        if name and not name.isidentifier():
            raise InvalidInputError(f"{name!r} is no name of a variable: write %%lake [NAME]")
        for statement in split(line if cell is None else cell):
            rows = (own if isinstance(own, Lake) else _connected()).sql(statement)
            if name:
                shell.user_ns[name] = rows
            if rows.columns:
                _show(statement, rows)

    shell.register_magic_function(lake, "line_cell", "lake")


@cache
def _connected() -> Lake:
    return connect()


def _show(statement: str, rows: Any) -> None:
    # Lazy import: only notebooks have IPython.
    from IPython import display

    first = (each.asDict() for each in rows.take(SHOWN + 1))
    table = display.HTML(html_table(" ".join(statement.split()), rows.columns, first))  # type: ignore[no-untyped-call]
    display.display(table)  # type: ignore[no-untyped-call]
