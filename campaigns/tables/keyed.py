"""The three-way merge of tables with a key, as dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from campaigns.tables.operations import ID, Row, Table

Rows: TypeAlias = Mapping[Any, Row]
"""Rows by key."""


def merged_settings(
    base: Mapping[str, str], source: Mapping[str, str], dest: Mapping[str, str]
) -> dict[str, str] | None:
    """Merge names and values in dest's order; None if both changed one differently."""
    merged = {}
    for name in {**base, **dest, **source}:
        old, one, other = (each.get(name) for each in (base, source, dest))
        if one not in (other, old) and other != old:
            return None
        value = other if one == old else one
        if value is not None:
            merged[name] = value
    return merged


def by_key(table: Table) -> Rows | None:
    """Return the rows by id, or None if several have one."""
    rows = {row[ID]: row for row in table.rows.values()}
    return rows if len(rows) == len(table.rows) else None


@dataclass(frozen=True, slots=True)
class RowMerge:
    """The rows of a three-way merge, without the keys in conflict."""

    rows: Rows
    conflicts: frozenset[Any]

    @staticmethod
    def of(base: Rows, source: Rows, dest: Rows, *, columns: bool, winner: str | None) -> RowMerge:
        """Merge dicts by key. `winner` is the side that wins conflicts, if any."""
        rows, conflicts = {}, set()
        for key in {*base, *source, *dest}:
            old, one, other = (each.get(key) for each in (base, source, dest))
            row = old
            if one == other or other == old:
                row = one
            elif one == old:
                row = other
            elif columns and old and one and other:
                row = _by_column(old, one, other, winner)
                conflicts |= set() if row else {key}
            elif winner is None:
                conflicts.add(key)
            else:
                row = one if winner == "source" else other
            if row is not None:
                rows[key] = row
        return RowMerge(rows, frozenset(conflicts))

    @staticmethod
    def of_tables(
        base: Table, source: Table, dest: Table, *, columns: bool, winner: str | None
    ) -> tuple[Table, frozenset[Any]] | None:
        """Return the table and the keys in conflict, or None if keys or columns disagree."""
        tables = base, source, dest
        names = merged_settings(*(each.columns for each in tables))
        properties = merged_settings(*(each.properties for each in tables))
        sides = [by_key(each) for each in tables]
        if names is None or properties is None or None in sides:
            return None
        projected = (
            {key: {name: row.get(name) for name in names} for key, row in (side or {}).items()}
            for side in sides
        )
        merge = RowMerge.of(*projected, columns=columns, winner=winner)
        table = Table(
            names,
            dict(enumerate(merge.rows.values())),
            any(each.is_wide for each in tables),
            properties,
            source.checks | dest.checks,
            source.format or dest.format,
        )
        return table, merge.conflicts


def _by_column(old: Row, one: Row, other: Row, winner: str | None) -> Row | None:
    """Merge the columns of a row; None if one is in conflict."""
    row = {}
    for name in {**other, **one}:
        before, ours, theirs = old.get(name), one.get(name), other.get(name)
        if theirs in (ours, before):
            row[name] = ours
        elif ours == before:
            row[name] = theirs
        elif winner is None:
            return None
        else:
            row[name] = ours if winner == "source" else theirs
    return row
