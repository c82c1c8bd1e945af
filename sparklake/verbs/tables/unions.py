"""The union of a table's histories on both merge sides, and its states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

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
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.metadata_folders import MetadataFolder
from sparklake.verbs.tables.row_merges import (
    ChangedRows,
    RowMergeCounts,
    RowsResult,
    Written,
    merge_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MAX_LABEL_CHARACTERS = 4_000

FindMany = Callable[[Sequence[bytes]], Sequence[bytes | None]]
"""A lookup of ascending keys in the merged tree."""

_S = TypeVar("_S", bound="Settled")


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


class Correction(NamedTuple):
    """A key of a table: its values in dest, after a merge by keys, and in the merged tree."""

    key: bytes
    dest: bytes | None
    by_keys: bytes | None
    end: bytes | None


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """A table that both sides changed, by its folder with a slash. '' is the root.

    `log` has the changed keys that represent it, mostly of its metadata. Folders of plain files
    have no `kind`.
    """

    folder: bytes
    log: Mapping[bytes, StoredValues] = field(default_factory=dict)
    kind: str = ""

    @property
    def name(self) -> str:
        return self.folder.removesuffix(b"/").decode(errors="replace") or "/"

    def united(self, files: Mapping[str, bytes], place: str | None = None) -> United:
        """Return dest's metadata with new files."""
        corrections = self._corrections(Strategy.DEST_WINS)
        return United(table=self, corrections=corrections, files=files, place=place)

    def taken(self, winner: Strategy, drops: DroppedCommits | None = None) -> Taken:
        """Return the metadata of one side."""
        corrections = self._corrections(winner)
        return Taken(table=self, corrections=corrections, winner=winner, drops=drops)

    def refused(self, reason: object, *, by_one_side: bool = False) -> Refused:
        """Return the conflict, with the most severe changes in source or one side."""
        subject = f"{self.kind} table" if self.kind else "the rows of"
        why = f"{subject} {self.name!r} cannot be merged: {reason}"
        changes = [
            each
            for each in self.log.items()
            if by_one_side or stored_record_id(each[1].source) != stored_record_id(each[1].base)
        ]
        for outcome in (KeyOutcome.CONFLICT, KeyOutcome.TAKE_SOURCE):
            worst = [each for each in changes if each[1].outcome is outcome]
            if worst:
                changes = worst
                break
        conflicts = [Conflict.of(key, *stored) for key, stored in changes]
        return Refused(table=self, why=why, conflicts=conflicts)

    def _corrections(self, winner: Strategy) -> list[Correction]:
        corrections = [
            Correction(
                key,
                each.dest,
                each.by_keys,
                each.source if winner is Strategy.SOURCE_WINS else each.dest,
            )
            for key, each in self.log.items()
        ]
        return [
            each
            for each in corrections
            if stored_record_id(each.end) != stored_record_id(each.by_keys)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A table in the merged tree: a merge by keys with `corrections`.

    `needed` are the table's files that a merge by keys may lose, each with its required record
    id, or None for any. `records` are those of other files.
    """

    table: ChangedTable
    corrections: Sequence[Correction] = ()
    needed: Mapping[bytes, bytes | None] = field(default_factory=dict)
    records: Sequence[Record] = ()

    def keeping(self: _S, context: Context, tree: MetaRangeId, keys: Iterable[bytes]) -> _S:
        """Return the union with files that a tree may have, and a merge by keys may lose."""
        stored = stored_values(context, tree, keys)
        return replace(
            self,
            needed={key: None for key, each in stored.items() if each is None},
            records=[(key, each) for key, each in stored.items() if each is not None],
        )

    def checked(self, find_many: FindMany) -> Settled | Refused:
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
        start = len(self.table.folder)
        names = (key[start:].decode(errors="replace") for key in lost)
        why = UnmergeableTableError("the merge lacks files required by the table", names)
        return self.table.refused(why, by_one_side=isinstance(self, OneSide))


@dataclass(frozen=True, slots=True, kw_only=True)
class United(Settled):
    """The union of both sides.

    `files` are new objects by name in the table, and `place` is their folder in the storage
    namespace, if they contain addresses of each other. `objects` are the written files with merged
    rows by name.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    place: str | None = None
    objects: Mapping[str, Entry] = field(default_factory=dict)
    row_counts: RowMergeCounts | None = None

    @property
    def added(self) -> dict[bytes, bytes]:
        return {self.table.folder + name.encode(): body for name, body in self.files.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSide(Settled):
    """The metadata of the only side that changed it, which a merge by keys takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(Settled):
    """The side of the whole table that a strategy selects, and the other side's commits."""

    winner: Strategy
    drops: DroppedCommits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A conflict on a table.

    It `may_be_taken` if a strategy can resolve it, and `may_merge_rows` if a rule `rows(KEY)` can.
    `drops` are the commits dropped by each strategy, `overlaps` the rows that both sides changed,
    by their positions in each file, and `conflicting_rows` those that a merge of rows leaves.
    """

    table: ChangedTable
    why: str
    conflicts: Sequence[Conflict]
    may_be_taken: bool = False
    may_merge_rows: bool = False
    drops: Mapping[Strategy, DroppedCommits] = field(default_factory=dict)
    overlaps: Mapping[str, Sequence[int]] = field(default_factory=dict)
    row_counts: RowMergeCounts | None = None
    conflicting_rows: DataFrame | None = None

    @property
    def message(self) -> str:
        if not (self.may_be_taken and self.drops):
            return self.why
        drops = (f"{strategy.value} drops {each}" for strategy, each in self.drops.items())
        return f"{self.why}. {'; '.join(drops)}"


class UnitedRows(ChangedRows[Written], Protocol[Written]):
    """The changed rows of a table that both sides changed."""

    def joined(self, union: United, result: Written) -> United:
        """Return a union with the written rows. Raises UnmergeableTableError."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A check of new rows on which a union depends.

    `identity` determines the problem, and `refused` returns the union with it.
    """

    identity: Hashable
    find_problem: Callable[[], UnmergeableTableError | None]
    refused: Callable[[UnmergeableTableError], Settled | Refused]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A file union that depends on a `check` of rows, and on a row merge.

    The merge replaces a refused union, or one in which both sides have a key.
    """

    union: United | Refused
    check: RowCheck | None = None
    rows: UnitedRows[Any] | None = None

    @property
    def table(self) -> ChangedTable:
        return self.union.table

    def settled(self, attempts: Attempts, *, write: bool) -> Settled | Refused:
        """Check and merge the rows. Without `write`, only count their changes."""
        if self.check is not None:
            problem = attempts.once(self.check.identity, self.check.find_problem)
            if problem is not None:
                return self.check.refused(problem)
        if self.rows is None:
            return self.union
        merge = partial(merge_rows, self.rows, write=write)
        return self._merged(self.rows, attempts.once(self.rows.identity, merge))

    def _merged(self, rows: UnitedRows[Any], result: RowsResult[Any]) -> Settled | Refused:
        union = self.union
        if result.keeps_union:
            return union
        reason = result.refusal
        if reason is None:
            united = union if isinstance(union, United) else self.table.united({})
            united = replace(united, row_counts=result.counts)
            try:
                return united if result.written is None else rows.joined(united, result.written)
            except UnmergeableTableError as error:
                reason = str(error)
        refused = self.table.refused(reason)
        if isinstance(union, Refused):
            refused = replace(refused, may_be_taken=union.may_be_taken, drops=union.drops)
        return replace(refused, row_counts=result.counts, conflicting_rows=result.conflicting_rows)


TableUnion: TypeAlias = Settled | Refused | Pending


def union_records(context: Context, unions: Iterable[Settled]) -> list[Record]:
    """Write the new objects, and return their records and the corrections of a merge by keys."""
    objects = Objects(context.info.storage_namespace)
    records = [
        tombstone(key) if end is None else (key, end)
        for each in unions
        for key, _, _, end in each.corrections
    ]
    for each in unions:
        records += each.records
        if not isinstance(each, United):
            continue
        for name, body in each.files.items():
            if each.place is None:
                new = objects.write(body)
            else:
                key = f"{each.place}/{name}"
                context.store.put_if_absent(key, body)
                new = object_at(key, body)
            records.append(new_record(each.table.folder + name.encode(), new))
        records += [
            new_record(each.table.folder + name.encode(), NewObject(entry))
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
    return tuple(each.table.name for each in unions if isinstance(each, United) and each.table.kind)


def table_winners(unions: Iterable[TableUnion]) -> dict[str, str]:
    return {each.table.name: each.winner.value for each in unions if isinstance(each, Taken)}


def dropped_commits(unions: Iterable[TableUnion]) -> dict[str, DroppedCommits]:
    return {
        each.table.name: each.drops for each in unions if isinstance(each, Taken) and each.drops
    }


def row_merges(unions: Iterable[TableUnion]) -> dict[str, RowMergeCounts]:
    with_rows = (each for each in unions if isinstance(each, United | Refused))
    return {each.table.name: each.row_counts for each in with_rows if each.row_counts is not None}


def union_labels(unions: Sequence[TableUnion]) -> dict[str, str]:
    """Return commit metadata about merged tables, and tables resolved by a strategy.

    Long lists are truncated.
    """
    tables = {
        MERGED_METADATA_KEY: merged_tables(unions),
        WINNERS_METADATA_KEY: [f"{name}={side}" for name, side in table_winners(unions).items()],
        DROPPED_METADATA_KEY: [f"{name}: {each}" for name, each in dropped_commits(unions).items()],
        ROWS_METADATA_KEY: [f"{name}: {each}" for name, each in row_merges(unions).items()],
    }
    labels = {key: ", ".join(names) for key, names in tables.items() if names}
    return {
        key: text
        if len(text) <= _MAX_LABEL_CHARACTERS
        else f"{text[:_MAX_LABEL_CHARACTERS]}... ({len(tables[key]):,} tables)"
        for key, text in labels.items()
    }
