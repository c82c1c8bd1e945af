"""What a merge makes of the log of a Delta table, as records and as words of its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sparklake.delta_log.commits import NotUnitedError
from sparklake.delta_log.names import commit_key, table_folder, table_name
from sparklake.graveler.algebra import Conflict
from sparklake.graveler.algebra.classify import Outcome, Strategy, classify
from sparklake.graveler.commits import TAKEN_METADATA_KEY, UNITED_METADATA_KEY
from sparklake.graveler.graph.virtual_base import is_disagreement
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.records import Record, tombstone
from sparklake.udfs.read import DiffRow, diff_row
from sparklake.udfs.strategies.judging import new_record
from sparklake.udfs.strategies.objects import Objects
from sparklake.verbs.base.context import Context

_MAX_LABEL_CHARACTERS = 4_000

FindMany = Callable[[Sequence[bytes]], Sequence[bytes | None]]
"""The stored values that ascending keys have in the merged tree."""


class Stored(NamedTuple):
    """What base, source and dest have stored under a key."""

    base: bytes | None
    source: bytes | None
    dest: bytes | None

    @property
    def source_differs(self) -> bool:
        """Whether source has changed the key since base."""
        return record_id(self.source) != record_id(self.base)

    @property
    def outcome(self) -> Outcome:
        """What a merge by keys does."""
        return classify(*map(record_id, self))

    @property
    def by_keys(self) -> bytes | None:
        """What the tasks of a merge make of a key of a log: a conflict stays dest's."""
        return self.source if self.outcome is Outcome.TAKE_SOURCE else self.dest


@dataclass(frozen=True, slots=True)
class TableUnion:
    """What a merge does to the log of one table, or why it cannot: then `refusal` says it.

    `log` is the keys that a side has changed. They become dest's with `commits` added, or those of
    the side that is `taken` as a whole; where one side alone changed it, what it made of them.
    `needed` is the keys of files that the table needs and that a merge by keys may not have, each
    with the record id that it must have, None for any. What is refused `may_be_taken` where a
    strategy could.
    """

    folder: bytes
    log: Mapping[bytes, Stored]
    commits: Mapping[int, bytes] = field(default_factory=dict)
    needed: Mapping[bytes, bytes | None] = field(default_factory=dict)
    taken: Strategy | None = None
    refusal: str | None = None
    may_be_taken: bool = False
    is_of_one_side: bool = False

    @property
    def name(self) -> str:
        """What the table is called."""
        return table_name(self.folder)

    @property
    def said(self) -> str:
        """What is said of it where it is refused."""
        return f"Delta table {self.name!r} cannot be united: {self.refusal}"

    @property
    def added(self) -> dict[bytes, bytes]:
        """The bytes of the commits that are added to dest's log, by their keys."""
        return {commit_key(self.folder, each): body for each, body in self.commits.items()}

    def becomes(self, stored: Stored) -> bytes | None:
        """Return what a key of the log that is there already ends with."""
        if self.is_of_one_side:
            return stored.by_keys
        return stored.source if self.taken is Strategy.SOURCE_WINS else stored.dest

    def corrections(self) -> Iterator[Record]:
        """Yield what ends in the log as a merge by keys does not leave it."""
        for key, stored in self.log.items():
            end = self.becomes(stored)
            if record_id(end) != record_id(stored.by_keys):
                yield tombstone(key) if end is None else (key, end)

    def conflicts(self) -> list[Conflict]:
        """Return the keys to name where it is refused: of those that source changed, the worst."""
        found = [each for each in self.log.items() if each[1].source_differs or self.is_of_one_side]
        for outcome in (Outcome.CONFLICT, Outcome.TAKE_SOURCE):
            worst = [each for each in found if each[1].outcome is outcome]
            if worst:
                return [_conflict(*each) for each in worst]
        return [_conflict(*each) for each in found]

    def checked(self, find_many: FindMany) -> TableUnion:
        """Return it refused if a file that it needs is not in the merged tree, or is another."""
        keys = sorted(self.needed)
        found = zip(keys, map(record_id, find_many(keys)), strict=True)
        lost = [
            key for key, there in found if there is None or self.needed[key] not in {None, there}
        ]
        if not lost:
            return self
        start = len(table_folder(self.folder))
        names = (key[start:].decode(errors="replace") for key in lost)
        why = NotUnitedError("files that the table needs are not in what is merged", names)
        return replace(self, refusal=str(why))


def record_id(stored: bytes | None) -> bytes | None:
    """Return by what a stored value is told from others; None for none."""
    return stored and stored[-RECORD_ID_BYTES:]


def _conflict(key: bytes, stored: Stored) -> Conflict:
    disputed = stored.base is not None and is_disagreement(stored.base)
    return Conflict(key, None if disputed else stored.base, stored.source, stored.dest, disputed)


def refused_rows(refused: Iterable[TableUnion]) -> Iterator[DiffRow]:
    """Yield the keys of logs that could not be united, and why."""
    for each in refused:
        for conflict in each.conflicts():
            yield replace(diff_row(conflict), reason=each.said)


def union_records(context: Context, unions: Iterable[TableUnion]) -> list[Record]:
    """Write new commits; return the records by which merged logs become what they should be."""
    objects = Objects(context.info.storage_namespace)
    records = [record for each in unions for record in each.corrections()]
    for each in unions:
        records += [new_record(key, objects.write(body)) for key, body in each.added.items()]
    return sorted(dict(records).items())


def united_tables(unions: Iterable[TableUnion]) -> tuple[str, ...]:
    """Return the names of the tables whose logs became one."""
    return tuple(
        each.name for each in unions if not (each.refusal or each.taken or each.is_of_one_side)
    )


def taken_tables(unions: Iterable[TableUnion]) -> dict[str, str]:
    """Return the names of the tables of which one side was taken, each with the strategy."""
    return {each.name: each.taken.value for each in unions if each.taken and not each.refusal}


def union_labels(unions: Sequence[TableUnion]) -> dict[str, str]:
    """Return what a commit says of the tables that both sides have changed; long lists are cut."""
    taken = [f"{name}={side}" for name, side in taken_tables(unions).items()]
    said = {UNITED_METADATA_KEY: united_tables(unions), TAKEN_METADATA_KEY: taken}
    return {key: _cut(tables) for key, tables in said.items() if tables}


def _cut(tables: Sequence[str]) -> str:
    said = ", ".join(tables)
    if len(said) <= _MAX_LABEL_CHARACTERS:
        return said
    return f"{said[:_MAX_LABEL_CHARACTERS]}... ({len(tables):,} tables)"
