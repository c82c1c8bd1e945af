"""A hook to check changed tables with Spark before they are published.

properties:
  function: sparklake.hooks.quality:check_tables
  args:
    tables:
      - path: tables/*
        checks: {not_null: [id], unique: [id], expressions: ["amount >= 0"]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from sparklake.errors import ObjectNotFoundError
from sparklake.hooks.events import EventTree, HookCall
from sparklake.visible import count_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ROWS = "rows"


class Checks(msgspec.Struct, forbid_unknown_fields=True):
    """The constraints of a table.

    `not_null` columns have a value in each row. The `unique` columns together are a unique key.
    `expressions` are SQL. As in a SQL CHECK, an expression that is null passes.
    """

    not_null: list[str] = []
    unique: list[str] = []
    expressions: list[str] = []
    min_rows: int = 0


class CheckedTables(msgspec.Struct, forbid_unknown_fields=True):
    """Tables with equal constraints. In the path, `*` is any name."""

    path: str
    checks: Checks
    format: str = "parquet"
    options: dict[str, Any] = {}


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    tables: list[CheckedTables]


class CheckFailedError(ValueError):
    """The failed checks, with their tables and numbers of rows."""


def check_tables(call: HookCall) -> str:
    """Check the changed tables and return their paths, or raise CheckFailedError."""
    arguments = msgspec.convert(dict(call.args), Arguments)
    checked: list[str] = []
    problems: list[str] = []
    for each in arguments.tables:
        for path in changed_tables(call.tree, each.path):
            try:
                rows = call.tree.read(path, each.format, **each.options)
            except ObjectNotFoundError:
                continue
            checked.append(path)
            problems += [f"{path}: {problem}" for problem in violations(rows, each.checks)]
    if problems:
        raise CheckFailedError("; ".join(problems))
    return f"checked {', '.join(checked) or 'no table: none has changed'}"


def changed_tables(tree: EventTree, path: str) -> list[str]:
    parts = path.strip("/").split("/")
    fixed = "".join(f"{each}/" for each in takewhile(lambda each: "*" not in each, parts))
    tables: dict[str, None] = {}
    for row in tree.changes(fixed):
        *folders, _ = row.path.split("/")
        table = folders[: len(parts)]
        if len(table) == len(parts) and all(map(fnmatchcase, table, parts)):
            tables["/".join(table)] = None
            if len(parts) == fixed.count("/"):
                break  # The pattern is one table, and it differs.
    return list(tables)


def violations(rows: DataFrame, checks: Checks) -> Iterator[str]:
    counts = _counts(rows, checks)
    total = counts.pop(_ROWS)
    if total < checks.min_rows:
        yield f"{count_of(total, 'row')}, but at least {checks.min_rows} are required"
    for check, count in counts.items():
        if count:
            yield f"{check} fails for {count} of {count_of(total, 'row')}"
    if checks.unique:
        from pyspark.sql import functions as f

        keys = rows.groupBy(*checks.unique).agg(f.count(f.lit(1)).alias(_ROWS))
        doubled = keys.where(f.col(_ROWS) > 1).agg(f.sum(_ROWS).alias(_ROWS)).first()
        if doubled is not None and doubled[0]:
            names = ", ".join(checks.unique)
            yield f"unique {names} fails for {doubled[0]} of {count_of(total, 'row')}"


def _counts(rows: DataFrame, checks: Checks) -> dict[str, int]:
    # Lazy import: hook files are also read without Spark installed.
    from pyspark.sql import functions as f

    broken: Mapping[str, Column] = {
        **{f"not_null {each}": f.col(each).isNull() for each in checks.not_null},
        **{f"expression {each}": ~f.expr(each) for each in checks.expressions},
    }
    counted = [f.count(f.when(each, 1)) for each in broken.values()]
    row = rows.agg(f.count(f.lit(1)), *counted).first()
    values = [0] * (1 + len(broken)) if row is None else list(row)
    return dict(zip([_ROWS, *broken], values, strict=True))
