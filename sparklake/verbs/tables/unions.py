"""The union of a table's histories on both merge sides: records and commit labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import KeyOutcome, Strategy, classify
from sparklake.graveler.commits import (
    DROPPED_METADATA_KEY,
    MERGED_METADATA_KEY,
    ROWS_METADATA_KEY,
    WINNERS_METADATA_KEY,
)
from sparklake.graveler.entries import Entry
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.records import Record, stored_record_id, tombstone
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.metadata.union.dropped import DroppedCommits
from sparklake.strategies.judging import new_record
from sparklake.strategies.object_access import NewObject, Objects, object_at
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.metadata_folders import MetadataFolder
from sparklake.verbs.tables.row_merges import ChangedRows, RowMergeCounts, RowsResult, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MAX_LABEL_CHARACTERS = 4_000

FindMany = Callable[[Sequence[bytes]], Sequence[bytes | None]]
"""A lookup of ascending keys in the merged tree."""


class StoredValues(NamedTuple):
    base: bytes | None
    source: bytes | None
    dest: bytes | None

    @property
    def outcome(self) -> KeyOutcome:
        return classify(*map(stored_record_id, self))

    @property
    def by_keys(self) -> bytes | None:
        """The value after a merge by keys. A conflict keeps dest's value."""
        return self.source if self.outcome is KeyOutcome.TAKE_SOURCE else self.dest


def changed_values(sides: Iterable[MetadataFolder]) -> dict[bytes, StoredValues]:
    """Return the values of the keys that differ in base, source and dest, in order."""
    folders = [each.records for each in sides]
    keys = sorted({key for each in folders for key in each})
    stored = {key: StoredValues(*(each.get(key) for each in folders)) for key in keys}
    return {key: each for key, each in stored.items() if len({*map(stored_record_id, each)}) > 1}


class UnitedRows(ChangedRows[Written], Protocol[Written]):
    """The changed rows of a table with metadata, which get a commit of their own."""

    def joined(self, union: TableUnion, commit: Written) -> TableUnion:
        """Return a union with the commit. Raises UnmergeableTableError."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A check of new rows on which a union depends.

    `identity` determines the problem, and `refused` returns the union with it.
    """

    identity: Hashable
    find_problem: Callable[[], UnmergeableTableError | None]
    refused: Callable[[UnmergeableTableError], TableUnion]


@dataclass(frozen=True, slots=True)
class TableUnion:
    """One merged history, or the reason for its `refusal`.

    `folder` is that of the table's metadata, and `log` has its changed keys. They result in
    dest's metadata with `files` added, in the metadata of the side `taken` as a whole or, if
    only one side changed it, in that side's. `files` are new objects by name in the table, and
    `place` is their folder in the storage namespace, if they contain addresses of each other.
    `needed` are the table's files that a merge by keys may lose, each with its required record
    id, or None for any, and `kept` those that it must not lose, each with its value. `overlaps`
    are the rows that both sides changed, by their positions in each file. A refused union
    `may_be_taken` if a strategy can resolve it, and `may_merge_rows` if a rule `rows(KEY)` can.
    `drops` are the commits dropped by each strategy. `pending` are the rows to merge instead, or
    to verify that the union has each key once, `objects` the written files with merged rows by
    name, and `conflicting_rows` the rows that refuse the union. The union depends on a `check` of
    rows, if any.
    """

    folder: bytes
    log: Mapping[bytes, StoredValues]
    kind: str = "Delta"
    place: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    needed: Mapping[bytes, bytes | None] = field(default_factory=dict)
    kept: Mapping[bytes, bytes] = field(default_factory=dict)
    taken: Strategy | None = None
    refusal: str | None = None
    may_be_taken: bool = False
    may_merge_rows: bool = False
    drops: Mapping[Strategy, DroppedCommits] = field(default_factory=dict)
    is_of_one_side: bool = False
    overlaps: Mapping[str, Sequence[int]] = field(default_factory=dict)
    pending: UnitedRows[Any] | None = None
    objects: Mapping[str, Entry] = field(default_factory=dict)
    row_counts: RowMergeCounts | None = None
    conflicting_rows: DataFrame | None = None
    check: RowCheck | None = None

    @property
    def table(self) -> bytes:
        """The table's folder, with a slash. '' is the root."""
        return table_of(self.folder)

    @property
    def name(self) -> str:
        return self.table.removesuffix(b"/").decode(errors="replace") or "/"

    @property
    def message(self) -> str:
        why = f"{self.kind} table {self.name!r} cannot be merged: {self.refusal}"
        if not (self.may_be_taken and self.drops):
            return why
        drops = (f"{strategy.value} drops {each}" for strategy, each in self.drops.items())
        return f"{why}. {'; '.join(drops)}"

    @property
    def added(self) -> dict[bytes, bytes]:
        return {self.table + name.encode(): body for name, body in self.files.items()}

    def becomes(self, stored: StoredValues) -> bytes | None:
        """Return the final value of a changed log key."""
        if self.is_of_one_side:
            return stored.by_keys
        return stored.source if self.taken is Strategy.SOURCE_WINS else stored.dest

    def corrections(self) -> Iterator[Record]:
        """Yield the records that may differ from a merge by keys."""
        yield from self.kept.items()
        for key, stored in self.log.items():
            end = self.becomes(stored)
            if stored_record_id(end) != stored_record_id(stored.by_keys):
                yield tombstone(key) if end is None else (key, end)

    def conflicts(self) -> list[Conflict]:
        """Return the conflicts to report for a refused union: the most severe changes of source."""
        changes = [
            each
            for each in self.log.items()
            if self.is_of_one_side
            or stored_record_id(each[1].source) != stored_record_id(each[1].base)
        ]
        for outcome in (KeyOutcome.CONFLICT, KeyOutcome.TAKE_SOURCE):
            worst = [each for each in changes if each[1].outcome is outcome]
            if worst:
                changes = worst
                break
        return [Conflict.of(key, *stored) for key, stored in changes]

    def keeping(self, context: Context, tree: MetaRangeId, keys: Iterable[bytes]) -> TableUnion:
        """Return the union with files that a tree may have, and a merge by keys may lose."""
        stored = stored_values(context, tree, keys)
        return replace(
            self,
            needed={key: None for key, each in stored.items() if each is None},
            kept={key: each for key, each in stored.items() if each is not None},
        )

    def checked(self, find_many: FindMany) -> TableUnion:
        """Return the union, refused if a needed file is missing from the tree or differs."""
        keys = sorted(self.needed)
        records = zip(keys, map(stored_record_id, find_many(keys)), strict=True)
        lost = [
            key
            for key, record in records
            if record is None or self.needed[key] not in {None, record}
        ]
        if not lost:
            return self
        start = len(self.table)
        names = (key[start:].decode(errors="replace") for key in lost)
        why = UnmergeableTableError("the merge lacks files required by the table", names)
        return replace(self, refusal=str(why))


def with_rows(union: TableUnion, result: RowsResult[Any]) -> TableUnion:
    """Return a union with the result of its pending row merge."""
    table = union.pending
    if result.keeps_union:
        return replace(union, pending=None)
    union = replace(
        union,
        pending=None,
        overlaps={},
        refusal=result.refusal,
        row_counts=result.counts,
        conflicting_rows=result.conflicting_rows,
    )
    if table is None or result.written is None:
        return union
    try:
        return table.joined(union, result.written)
    except UnmergeableTableError as error:
        return replace(union, refusal=str(error))


def with_check(union: TableUnion, problem: UnmergeableTableError | None) -> TableUnion:
    """Return a union with the result of its row check."""
    if union.check is None or problem is None:
        return replace(union, check=None)
    return union.check.refused(problem)


def table_of(folder: bytes) -> bytes:
    """Return the table folder of a metadata folder."""
    return folder[: folder.rfind(b"/", 0, -1) + 1]


def refused_conflicts(refused: Iterable[TableUnion]) -> Iterator[tuple[Conflict, str]]:
    for each in refused:
        for conflict in each.conflicts():
            yield conflict, each.message


def union_records(context: Context, unions: Iterable[TableUnion]) -> list[Record]:
    """Write the new objects, and return their records and corrections of the merged logs."""
    objects = Objects(context.info.storage_namespace)
    records = [record for each in unions for record in each.corrections()]
    for each in unions:
        for name, body in each.files.items():
            if each.place is None:
                new = objects.write(body)
            else:
                key = f"{each.place}/{name}"
                context.store.put_if_absent(key, body)
                new = object_at(key, body)
            records.append(new_record(each.table + name.encode(), new))
        records += [
            new_record(each.table + name.encode(), NewObject(entry))
            for name, entry in each.objects.items()
        ]
    return sorted(dict(records).items())


def record_ids(
    context: Context, tree: MetaRangeId, keys: Iterable[bytes]
) -> dict[bytes, bytes | None]:
    stored = stored_values(context, tree, keys)
    return {key: stored_record_id(each) for key, each in stored.items()}


def stored_values(
    context: Context, tree: MetaRangeId, keys: Iterable[bytes]
) -> Mapping[bytes, bytes | None]:
    keys = sorted({*keys})
    stored = context.open_ranges.lookup_many(context.trees.get(tree).ranges, keys)
    return dict(zip(keys, stored, strict=True))


def merged_tables(unions: Iterable[TableUnion]) -> tuple[str, ...]:
    return tuple(
        each.name for each in unions if not (each.refusal or each.taken or each.is_of_one_side)
    )


def table_winners(unions: Iterable[TableUnion]) -> dict[str, str]:
    return {each.name: each.taken.value for each in unions if each.taken and not each.refusal}


def dropped_commits(unions: Iterable[TableUnion]) -> dict[str, DroppedCommits]:
    winning = (each for each in unions if each.taken in each.drops and not each.refusal)
    return {each.name: each.drops[each.taken] for each in winning if each.taken}


def row_merges(unions: Iterable[TableUnion]) -> dict[str, RowMergeCounts]:
    return {each.name: each.row_counts for each in unions if each.row_counts is not None}


def union_labels(
    unions: Sequence[TableUnion],
    folders: Mapping[str, RowMergeCounts] = MappingProxyType({}),
    winners: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return commit metadata about merged tables, and tables resolved by a strategy.

    `folders` are the other tables with merged rows, `winners` the winning sides of folders. Long
    lists are truncated.
    """
    sides = {**table_winners(unions), **winners}
    drops = dropped_commits(unions).items()
    rows = {**row_merges(unions), **folders}
    tables = {
        MERGED_METADATA_KEY: merged_tables(unions),
        WINNERS_METADATA_KEY: [f"{name}={side}" for name, side in sides.items()],
        DROPPED_METADATA_KEY: [f"{name}: {each}" for name, each in drops],
        ROWS_METADATA_KEY: [f"{name}: {each}" for name, each in rows.items()],
    }
    labels = {key: ", ".join(names) for key, names in tables.items() if names}
    return {
        key: text
        if len(text) <= _MAX_LABEL_CHARACTERS
        else f"{text[:_MAX_LABEL_CHARACTERS]}... ({len(tables[key]):,} tables)"
        for key, text in labels.items()
    }
