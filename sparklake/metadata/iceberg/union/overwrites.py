"""Conflicting overwrites of the same rows by both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sparklake.metadata.iceberg.entries import Entry, has_deletes
from sparklake.metadata.iceberg.manifests import Content
from sparklake.metadata.iceberg.union.snapshots import IcebergCommit, Table
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.metadata.union.orders import SideCommit, find_circle


@dataclass(frozen=True)
class _Region:
    """A region that a commit replaces at most: partitions, or the whole table."""

    partitions: frozenset[tuple[object, ...]] | None = None

    @property
    def name(self) -> str:
        return "the table" if self.partitions is None else "the same partitions"

    @property
    def is_all(self) -> bool:
        return self.partitions is None

    @cached_property
    def _specs(self) -> frozenset[object]:
        return frozenset(each[0] for each in self.partitions or ())

    def may_have(self, add: Entry) -> bool:
        if self.partitions is None or _partition(add) in self.partitions:
            return True
        # A file of another partition spec may have rows of any partition.
        return not self._specs <= {add.file.spec_id}


def check_overwrites(
    source: Table, theirs: Sequence[IcebergCommit], dest: Table, ours: Sequence[IcebergCommit]
) -> None:
    """Reject overwrites of the same rows by both sides. Commits are in order.

    Snapshots do not record the filter of an overwrite. A commit that removed files replaced a
    partition if no other file of it was left, and a commit that removed none replaced any rows, at
    worst.
    """
    steps = [[_step(each) for each in commits] for commits in (theirs, ours)]
    if find_circle(*steps) is not None:
        # Only here is it worth looking for the files that were left.
        steps = [
            [_step(each, side) for each in commits]
            for side, commits in ((source, theirs), (dest, ours))
        ]
    region = find_circle(*steps)
    if region is not None:
        raise UnmergeableTableError(f"both sides may have overwritten rows of {region.name}")


def _step(commit: IcebergCommit, side: Table | None = None) -> SideCommit:
    if commit.operation == "replace":
        return SideCommit(None, ())
    return SideCommit(_region(commit, side), commit.data_added)


def _region(commit: IcebergCommit, side: Table | None) -> _Region | None:
    if commit.operation != "overwrite":
        return None
    if commit.summary.get("replace-partitions") == "true":
        partitions = frozenset(map(_partition, commit.data_added))
        # Without partition fields, or with void ones, it replaces the whole table.
        has_fields = all(any(value is not None for value in each[1:]) for each in partitions)
        return _Region(partitions if has_fields else None)
    if not commit.data_removed:
        has_deletes = any(each.file.content is not Content.DATA for each in commit.added.values())
        # A merge on read adds deletes. Without any, a filter matched no file.
        return None if has_deletes else _Region()
    if side is None:
        return _Region()
    return _Region(
        frozenset({_partition(each) for each in commit.data_added} - _left(commit, side))
    )


def _left(commit: IcebergCommit, side: Table) -> set[tuple[object, ...]]:
    """Return the partitions with added files that still have older files."""
    listed = side.list_of(commit.snapshot)
    partitions = {_partition(each) for each in commit.data_added}
    remaining: set[tuple[object, ...]] = set()
    for each in listed.entries.values() if listed else ():
        if remaining >= partitions:
            break
        if not has_deletes(each):
            live = (entry for entry in side.manifest(each).live if entry.key not in commit.added)
            remaining.update(map(_partition, live))
    return remaining & partitions


def _partition(entry: Entry) -> tuple[object, ...]:
    return (entry.file.spec_id, *entry.file.partition)
