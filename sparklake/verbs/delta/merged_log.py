"""The merged log of a Delta table: records and commit labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from sparklake.delta_log.delta_commits import UnmergeableTableError
from sparklake.delta_log.file_names import commit_key, folder_of_log, table_name
from sparklake.delta_log.union.dropped import DroppedCommits
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import KeyOutcome, Strategy, classify
from sparklake.graveler.commits import (
    DROPPED_METADATA_KEY,
    MERGED_METADATA_KEY,
    ROWS_METADATA_KEY,
    WINNERS_METADATA_KEY,
)
from sparklake.graveler.entries import Entry
from sparklake.graveler.graph.virtual_base import is_disagreement
from sparklake.graveler.records import Record, stored_record_id, tombstone
from sparklake.strategies.judging import new_record
from sparklake.strategies.object_access import NewObject, Objects
from sparklake.verbs.base.context import Context
from sparklake.verbs.delta.rows import DeltaRows
from sparklake.verbs.tables.row_merges import RowMergeCounts

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


@dataclass(frozen=True, slots=True)
class TableUnion:
    """The merged log of one table, or the reason for its `refusal`.

    `log` has the changed keys. They result in dest's log with `commits` appended, in the log of the
    side `taken` as a whole or, if only one side changed the log, in that side's log. `files` are
    new objects of the table, by name, to which the commits refer. `needed` are the table's files
    that a merge by keys may lose, each with its required record id, or None for any, and `kept`
    those that it must not lose, each with its value. `overlaps` are the rows that both sides
    changed, by their positions in each file. A refused union `may_be_taken` if a strategy can
    resolve it. `drops` are the commits dropped by each strategy. `pending` are the rows to merge
    instead, `objects` the written files with merged rows by name, and `conflicting_rows` the rows
    that refuse the union.
    """

    folder: bytes
    log: Mapping[bytes, StoredValues]
    commits: Mapping[int, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    needed: Mapping[bytes, bytes | None] = field(default_factory=dict)
    kept: Mapping[bytes, bytes] = field(default_factory=dict)
    taken: Strategy | None = None
    refusal: str | None = None
    may_be_taken: bool = False
    drops: Mapping[Strategy, DroppedCommits] = field(default_factory=dict)
    is_of_one_side: bool = False
    overlaps: Mapping[str, Sequence[int]] = field(default_factory=dict)
    pending: DeltaRows | None = None
    objects: Mapping[str, Entry] = field(default_factory=dict)
    row_counts: RowMergeCounts | None = None
    conflicting_rows: DataFrame | None = None

    @property
    def name(self) -> str:
        return table_name(self.folder)

    @property
    def message(self) -> str:
        why = f"Delta table {self.name!r} cannot be merged: {self.refusal}"
        if not self.may_be_taken:
            return why
        drops = (f"{strategy.value} drops {each}" for strategy, each in self.drops.items())
        return f"{why}. {'; '.join(drops)}"

    @property
    def added(self) -> dict[bytes, bytes]:
        """The new objects of the table by key: log entries, and the files that they refer to."""
        table = folder_of_log(self.folder)
        files = {table + name.encode(): body for name, body in self.files.items()}
        return files | {commit_key(self.folder, each): body for each, body in self.commits.items()}

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
                return [_conflict(*each) for each in worst]
        return [_conflict(*each) for each in changes]

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
        start = len(folder_of_log(self.folder))
        names = (key[start:].decode(errors="replace") for key in lost)
        why = UnmergeableTableError("the merge lacks files required by the table", names)
        return replace(self, refusal=str(why))


def _conflict(key: bytes, stored: StoredValues) -> Conflict:
    disputed = stored.base is not None and is_disagreement(stored.base)
    return Conflict(key, None if disputed else stored.base, stored.source, stored.dest, disputed)


def refused_conflicts(refused: Iterable[TableUnion]) -> Iterator[tuple[Conflict, str]]:
    for each in refused:
        for conflict in each.conflicts():
            yield conflict, each.message


def union_records(context: Context, unions: Iterable[TableUnion]) -> list[Record]:
    """Write the new objects, and return their records and corrections of the merged logs."""
    objects = Objects(context.info.storage_namespace)
    records = [record for each in unions for record in each.corrections()]
    for each in unions:
        records += [new_record(key, objects.write(body)) for key, body in each.added.items()]
        table = folder_of_log(each.folder)
        records += [
            new_record(table + name.encode(), NewObject(entry))
            for name, entry in each.objects.items()
        ]
    return sorted(dict(records).items())


def merged_tables(unions: Iterable[TableUnion]) -> tuple[str, ...]:
    return tuple(
        each.name for each in unions if not (each.refusal or each.taken or each.is_of_one_side)
    )


def table_winners(unions: Iterable[TableUnion]) -> dict[str, str]:
    return {each.name: each.taken.value for each in unions if each.taken and not each.refusal}


def dropped_commits(unions: Iterable[TableUnion]) -> dict[str, DroppedCommits]:
    return {each.name: each.drops[each.taken] for each in unions if each.taken and not each.refusal}


def row_merges(unions: Iterable[TableUnion]) -> dict[str, RowMergeCounts]:
    return {each.name: each.row_counts for each in unions if each.row_counts is not None}


def union_labels(
    unions: Sequence[TableUnion], folders: Mapping[str, RowMergeCounts] = MappingProxyType({})
) -> dict[str, str]:
    """Return commit metadata about merged tables, and tables resolved by a strategy.

    `folders` are the other tables with merged rows. Long lists are truncated.
    """
    drops = dropped_commits(unions).items()
    rows = {**row_merges(unions), **folders}
    tables = {
        MERGED_METADATA_KEY: merged_tables(unions),
        WINNERS_METADATA_KEY: [f"{name}={side}" for name, side in table_winners(unions).items()],
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
