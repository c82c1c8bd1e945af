"""Delta tables that both sides of a merge have changed: their logs become one, or are refused.

The tasks of a merge say which logs they met. What source changed in such a log is taken back, and
what it did to the table is committed once more on top of dest's log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from sparklake.errors import MissingFileError
from sparklake.graveler.algebra import Conflict
from sparklake.graveler.classification import Outcome, classify
from sparklake.graveler.disagreement import is_disagreement
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.planning import Plan
from sparklake.graveler.records import Record, tombstone
from sparklake.udfs.delta.actions import FileKey, Said, encode_actions
from sparklake.udfs.delta.commits import NotUnitedError
from sparklake.udfs.delta.names import commit_key, log_folder, table_name
from sparklake.udfs.delta.paths import file_keys
from sparklake.udfs.delta.touched import MAX_TABLES, too_many_tables
from sparklake.udfs.delta.union.liveness import live_adds
from sparklake.udfs.delta.union.sides import Made
from sparklake.udfs.delta.union.united import united
from sparklake.udfs.strategies.judging import new_record
from sparklake.udfs.strategies.objects import Objects
from sparklake.udfs.strategies.resolution import Resolution
from sparklake.verbs.context import Context
from sparklake.verbs.delta.logs import log_sides, read_log
from sparklake.verbs.resolve import check_kept

if TYPE_CHECKING:
    from sparklake.verbs.merging.three_way import Sides

UNITED_METADATA_KEY = "sparklake.merge.delta"
_MAX_LABEL_CHARACTERS = 4_000

Find = Callable[[bytes], bytes | None]
"""Returns the stored value that a key has in the merged tree."""


class Stored(NamedTuple):
    """Is what base, source and dest have stored under a key."""

    base: bytes | None
    source: bytes | None
    dest: bytes | None

    @property
    def outcome(self) -> Outcome:
        """Returns what a merge by keys does."""
        return classify(*(each and each[-RECORD_ID_BYTES:] for each in self))


@dataclass(frozen=True, slots=True)
class TableUnion:
    """Is what a merge does to the log of one table, or why it cannot: then `refusal` says it.

    `changed` is the keys of the log that source changed since base, `kept` what is said of files
    that have come on either side and must be there.
    """

    folder: bytes
    changed: Mapping[bytes, Stored]
    commits: Mapping[int, bytes] = field(default_factory=dict)
    kept: Sequence[Said] = ()
    refusal: str | None = None

    @property
    def name(self) -> str:
        """Returns what the table is called."""
        return table_name(self.folder)

    @property
    def added(self) -> dict[bytes, bytes]:
        """Returns the bytes of the commits that are added to dest's log, by their keys."""
        return {commit_key(self.folder, each): body for each, body in self.commits.items()}

    def taken_back(self) -> Iterator[Record]:
        """Yields what source changed in the log as it is in dest, a tombstone where it is not."""
        for key, stored in self.changed.items():
            yield tombstone(key) if stored.dest is None else (key, stored.dest)

    def conflicts(self) -> list[Conflict]:
        """Returns the keys to name where it is refused: those that both sides changed, or all."""
        found = self.changed.items()
        both = [each for each in found if each[1].outcome is Outcome.CONFLICT]
        return [_conflict(*each) for each in both or found]

    def checked(self, find: Find) -> TableUnion:
        """Returns it refused if a file that it needs is not in the merged tree."""
        lost = [
            FileKey.of(said).path
            for said in self.kept
            if any(find(key) is None for key in file_keys(self.folder, said))
        ]
        if not lost:
            return self
        why = NotUnitedError("files that the table needs are not in what is merged", lost)
        return TableUnion(self.folder, self.changed, refusal=str(why))


def _conflict(key: bytes, stored: Stored) -> Conflict:
    disputed = stored.base is not None and is_disagreement(stored.base)
    return Conflict(key, None if disputed else stored.base, stored.source, stored.dest, disputed)


def logs_at_edges(plan: Plan) -> set[bytes]:
    """Returns the folders of logs that lie across the bound of a piece that is copied unread."""
    edges = (
        key
        for piece in plan.stretches_copied
        if piece.ranges
        for key in (piece.ranges[0].min_key, piece.ranges[-1].max_key)
    )
    return {folder for folder in map(log_folder, edges) if folder is not None}


def table_unions(
    context: Context, sides: Sides, resolution: Resolution, folders: Iterable[bytes]
) -> list[TableUnion]:
    """Returns what becomes of the tables that both sides have changed, among some.

    Raises ExpiredError where the log of the base is gone with it.
    """
    logs = sorted(folders)
    if len(logs) > MAX_TABLES:
        raise too_many_tables()
    found = (
        _union(context, sides, folder)
        for folder in logs
        if resolution.unites(folder) and sides.choice.parts(prefix_interval(folder))
    )
    try:
        return [each for each in found if each is not None]
    except MissingFileError:
        check_kept(context, sides.bases)
        raise


def _union(context: Context, sides: Sides, folder: bytes) -> TableUnion | None:
    """Returns what becomes of a table; None where only one side changed its log."""
    base, source, dest = (
        read_log(context, tree, folder) for tree in (sides.base, sides.source, sides.dest)
    )
    if base.ids in (source.ids, dest.ids) or source.ids == dest.ids:
        return None
    changed = {
        key: Stored(*(each.records.get(key) for each in (base, source, dest)))
        for key in sorted({*base.ids, *source.ids})
        if base.ids.get(key) != source.ids.get(key)
    }
    try:
        if not sides.choice.holds(prefix_interval(folder)):
            raise NotUnitedError("only a part of its log is among the chosen paths")
        before, theirs, ours = log_sides((base, source, dest))
        made = Made(time.time_ns() // 1_000_000, f"sparklake/{version('sparklake')}")
        commits = united(before, theirs, ours, source.adds, made)
    except NotUnitedError as error:
        return TableUnion(folder, changed, refusal=str(error))
    bodies = dict(enumerate(map(encode_actions, commits), dest.latest + 1))
    kept = live_adds([*(each.actions for each in ours.commits), *commits])
    return TableUnion(folder, changed, bodies, kept)


def union_records(context: Context, unions: Iterable[TableUnion]) -> list[Record]:
    """Writes new commits; returns the records by which merged logs become what they should be."""
    objects = Objects(context.info.storage_namespace)
    records = [record for each in unions for record in each.taken_back()]
    for each in unions:
        records += [new_record(key, objects.write(body)) for key, body in each.added.items()]
    return sorted(dict(records).items())


def union_labels(tables: Sequence[str]) -> dict[str, str]:
    """Returns what a commit says of the tables whose logs were united; long lists are cut."""
    if not tables:
        return {}
    said = ", ".join(tables)
    if len(said) > _MAX_LABEL_CHARACTERS:
        said = f"{said[:_MAX_LABEL_CHARACTERS]}... ({len(tables):,} tables)"
    return {UNITED_METADATA_KEY: said}
