"""Whether the changes of two sides touch different rows, columns and settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from campaigns.tables.operations import ID, Table


def are_disjoint(base: Table, source: Table, dest: Table) -> bool:
    """Return whether no id, column, property or constraint is touched by both sides."""
    touched = [_touched(base, each) for each in (source, dest)]
    dropped = [base.columns.keys() - each.columns.keys() for each in (source, dest)]
    values = [_changed_columns(base, each) for each in (source, dest)]
    if any("format" in each for each in touched) and all(touched):
        return False
    overlaps = dropped[0] & values[1] or dropped[1] & values[0]
    return not (touched[0] & touched[1] or overlaps)


def share_files(
    base: Mapping[str, object], source: Mapping[str, object], dest: Mapping[str, object]
) -> bool:
    """Return whether one side rewrote or removed a file with row changes of the other.

    The files are given by path, with the deletes that apply to them.
    """
    removals = [base.keys() - each.keys() for each in (source, dest)]
    touched = [
        {path for path, deletes in base.items() if path not in each or each[path] != deletes}
        for each in (source, dest)
    ]
    return bool(removals[0] & touched[1] or touched[0] & removals[1])


def _touched(base: Table, table: Table) -> set[object]:
    old, new = _by_id(base), _by_id(table)
    touched: set[object] = {each for each in {*old, *new} if old.get(each) != new.get(each)}
    for kind in ("columns", "properties"):
        one, other = getattr(base, kind), getattr(table, kind)
        touched |= {(kind, at) for at in {*one, *other} if one.get(at) != other.get(at)}
    touched |= table.checks - base.checks
    touched |= {"format"} if table.format else set()
    return touched | ({"w"} if table.is_wide != base.is_wide else set())


def _by_id(table: Table) -> dict[object, list[int]]:
    versions: dict[object, list[int]] = defaultdict(list)
    for version, row in table.rows.items():
        versions[row[ID]].append(version)
    return versions


def _changed_columns(base: Table, table: Table) -> set[str]:
    """Return the columns with different values in rows of base."""
    old = {row[ID]: row for row in base.rows.values()}
    return {
        name
        for row in table.rows.values()
        if row[ID] in old
        for name, value in row.items()
        if old[row[ID]].get(name) != value
    }
