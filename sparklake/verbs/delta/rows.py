"""Row merges in Delta tables: the files to read, and one commit by Delta itself."""

from __future__ import annotations

import re
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version as version_of
from itertools import chain
from typing import TYPE_CHECKING

from sparklake._scratch import scratch_folder
from sparklake.errors import InvalidInputError
from sparklake.frames.tables.spark_sources import check_delta, load_delta
from sparklake.graveler.entries import Entry
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ranges import MetaRange
from sparklake.metadata.delta.actions import (
    Action,
    Fields,
    FileKey,
    decode_actions,
    encode_actions,
    fields_of,
)
from sparklake.metadata.delta.file_names import LogFiles, commit_name, log_key
from sparklake.metadata.delta.paths import file_keys
from sparklake.metadata.delta.union.liveness import live_after
from sparklake.metadata.delta.union.log_sides import LogSide, UnionSignature
from sparklake.metadata.delta.union.rows import (
    Files,
    RowSettings,
    editable,
    is_merged_by_files,
    partial_log,
    restated,
    settings_over,
    touched_paths,
)
from sparklake.metadata.delta.union.schemas import named_like, schema_fields
from sparklake.metadata.formats import table_of
from sparklake.metadata.union.conflicts import refusing
from sparklake.metadata.union.file_sets import SIDES, Holders, file_sets, side_names
from sparklake.namespace.addresses import new_data_key
from sparklake.session import quoted
from sparklake.stores.objects.addresses import spark_uri
from sparklake.strategies.row_strategy import Rows, key_in
from sparklake.verbs.base.context import Context
from sparklake.verbs.delta.files_view import TableTree
from sparklake.verbs.delta.read import find_delta_view
from sparklake.verbs.delta.row_checks import find_violation
from sparklake.verbs.delta.table_copy import BaseTable, new_log, new_names
from sparklake.verbs.delta.tree_log import Commits, TreeLog
from sparklake.verbs.tables.row_merges import MergedRows, RowMergeCounts, merge_into
from sparklake.verbs.tables.spark_writer import check_native
from sparklake.verbs.tables.unions import United
from sparklake.verbs.tables.version import TableVersion, tree_table
from sparklake.verbs.tables.written import file_entries, named_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from sparklake.frames.tables.row_merge import RowSides


@dataclass(frozen=True)
class DeltaRows:
    """The rows that changed since base in a Delta table, as far as files show.

    `trees`, `logs` and `log_sides` are those of base, source and dest. Several bases are those of a
    criss-cross that disagree on the table. `union` are the commits of the union of files, if any.
    """

    context: Context
    trees: Sequence[MetaRangeId]
    rows: Rows
    logs: Sequence[TreeLog]
    log_sides: Sequence[LogSide]
    union: Sequence[Sequence[Action]] | None = None

    @property
    def folder(self) -> str:
        return table_of(self.logs[-1].folder).decode()

    @cached_property
    def _live(self) -> Sequence[Files]:
        """The live files of the three sides that differ, at least."""
        touched = touched_paths(self.log_sides)
        return [each.live(touched) for each in self.logs]

    @cached_property
    def _sets(self) -> Mapping[Holders, Files]:
        return file_sets(dict(zip(self._names, self._live, strict=True)))

    @property
    def _names(self) -> Sequence[str]:
        return side_names(len(self.trees) - 2)

    @cached_property
    def has_union(self) -> bool:
        if self.union is None:
            return False
        base, source, dest = self._live
        return is_merged_by_files(base, source, dest, live_after(self.union, dest))

    @property
    def files(self) -> int:
        return sum(map(len, self._sets.values()))

    @property
    def bytes(self) -> int:
        every = (fields for files in self._sets.values() for fields in files.values())
        return sum(int(fields.get("size") or 0) for fields in every)

    @property
    def identity(self) -> Hashable:
        return self.logs[-1].folder, *(tuple(each.ids.items()) for each in self.logs)

    @cached_property
    def _settings(self) -> RowSettings:
        return settings_over(self.log_sides)

    @cached_property
    def _metadata(self) -> Fields:
        if not self.has_union:
            return self._settings.metadata
        # Its settings fit also where rows cannot be written, as with identity columns.
        changes = fields_of(chain.from_iterable(self.union or ()), "metaData")
        return [self.log_sides[-1].metadata or {}, *changes][-1]

    @property
    def key(self) -> Sequence[str]:
        return key_in(self._metadata.get("configuration"))

    def sides(self) -> tuple[RowSides, StructType]:
        return self._frames

    @cached_property
    @refusing()
    def _frames(self) -> tuple[RowSides, StructType]:
        from sparklake.frames.tables.column_names import name_rule
        from sparklake.frames.tables.row_merge import merged_schema

        check_delta(self.context.runners.session())
        claims = () if self.has_union else self._settings.row_claims
        problem = find_violation(self.context, self.trees, self.folder, claims) if claims else None
        if problem is not None:
            raise problem
        frames = {
            holders: self._frame(self._names.index(holders[0]), files)
            for holders, files in self._sets.items()
        }
        rule = name_rule(self.context.runners.session())
        return frames, merged_schema(rule, *(frames[(each,)].schema for each in SIDES))

    def dest_rows(self) -> DataFrame:
        view = find_delta_view(self.context, self._dest, {})
        rows = load_delta(self.context.runners.session(), view.uri, {})
        named = named_like(self.log_sides[-1].metadata or {}, self._metadata)
        return rows.toDF(*(each["name"] for each in schema_fields(named)))

    def _frame(self, at: int, files: Files) -> DataFrame:
        side = self.log_sides[at]
        if side.metadata is None or side.protocol is None:
            # A table that both sides created has no rows in base.
            side, files = self.log_sides[-1], {}
        assert side.metadata is not None
        # Rows of all sides are matched by name: that of the merged table.
        side = replace(side, metadata=named_like(side.metadata, self._metadata))
        tree = TableTree(self.context, self._names[at], self._tree(at), self.folder)
        view = tree.view(side, [files[each] for each in sorted(files)])
        assert view is not None
        return load_delta(self.context.runners.session(), view.uri, {})

    def _tree(self, at: int) -> MetaRange:
        return self.context.trees.get(self.trees[at])

    @property
    def _dest(self) -> TableVersion:
        return tree_table(self.context, self._tree(-1), self._names[-1], self.folder)

    @refusing()
    def write(self, merged: MergedRows) -> RowCommit:
        """Commit changed rows with Delta to a private table of the files that may change."""
        dest, signature = self.log_sides[-1], union_signature()
        version = self.logs[-1].latest + 1
        if not merged.counts.changes:
            return RowCommit(version, restated((), self._settings, dest, signature), {})
        check_native(self.context)
        place = new_data_key()
        base = self._put_table(place, signature.timestamp)
        location = spark_uri(f"{self.context.info.storage_namespace}/{place}")
        with _refusing_errors():
            merge_into(f"delta.{quoted(location)}", merged.merge.changes(), merged.merge.key)
        with scratch_folder() as scratch:
            entries = new_log(self.context, place, base, scratch).entries
        if len(entries) != 1:
            raise InvalidInputError(f"Delta made {len(entries)} commits of the merged rows")
        _check_metrics(entries[0], merged.counts)
        title = f"rows of {self.folder.rstrip('/')}"
        with named_files(self.context, title, place, new_names(base, entries), "Delta") as files:
            entry_of = dict(file_entries(place, files))
        actions = restated(entries[0], self._settings, dest, signature)
        return RowCommit(version, actions, entry_of)

    def joined(self, union: United, result: RowCommit) -> United:
        apart = [each.commits for each in self.log_sides]
        needed = needed_keys(self.logs, apart, -1, [result.actions])
        new = {(self.folder + name).encode() for name in result.files}
        body = encode_actions(result.actions)
        union = replace(union, files={log_key(result.version): body}, objects=result.files)
        return union.keeping(self.context, self.trees[-1], {*needed} - new)

    def _put_table(self, place: str, timestamp: int) -> BaseTable:
        settings, dest = self._settings, self.log_sides[-1]
        files = editable(self._live[-1], self._live[:-1])
        actions = decode_actions(
            encode_actions(partial_log(settings, dest, files, timestamp)), commit_name(0)
        )
        log_files = LogFiles(0, (), (commit_name(0),))
        base = BaseTable(self._dest, log_files, {}, names_files=True)
        base.place_files(list(fields_of(actions, "add")))
        self.context.store.put_if_absent(f"{place}/{log_key(0)}", encode_actions(actions))
        return base


@dataclass(frozen=True, slots=True)
class RowCommit:
    """A version of dest's log with the merged rows, and its new files by name in the table."""

    version: int
    actions: tuple[Action, ...]
    files: Mapping[str, Entry]


def needed_keys(
    logs: Sequence[TreeLog],
    apart: Sequence[Commits],
    place: int,
    more: Sequence[Sequence[Action]] = (),
) -> list[bytes]:
    """Return the keys of one side's files that a merge by keys may lose.

    These are the added files, including those of `more` commits, and live files that other commits
    removed, because a vacuum may have followed.
    """
    again = {
        FileKey.of(each["remove"]).path for fields in more for each in fields if "remove" in each
    }
    removed = (key.path for commits in apart for commit in commits for key in commit.removes)
    paths = {*removed} - again
    is_new = not any(each.commits for each in logs if each is not logs[place])
    # If only one side has a log, the sides have no common log to part from.
    live = logs[place].live(None if is_new else paths) if is_new or paths else {}
    result = live_after([*(each.actions for each in apart[place]), *more], live)
    return [key for fields in result.values() for key in file_keys(logs[place].folder, fields)]


def union_signature() -> UnionSignature:
    return UnionSignature(time.time_ns() // 1_000_000, f"sparklake/{version_of('sparklake')}")


_DELTA_ERROR = re.compile(r"\[DELTA_[^\n]*")


@contextmanager
def _refusing_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # (of Spark or of py4j, depending on the version)
        match = _DELTA_ERROR.search(str(error))
        if match is None:
            raise
        raise InvalidInputError(f"Delta rejects the merged rows ({match[0]})") from error


_METRICS = {
    "added": "numTargetRowsInserted",
    "changed": "numTargetRowsUpdated",
    "removed": "numTargetRowsDeleted",
}


def _check_metrics(entry: Sequence[Action], expected: RowMergeCounts) -> None:
    info = next(fields_of(entry, "commitInfo"), {})
    metrics = info.get("operationMetrics") or {}
    for name, metric in _METRICS.items():
        number, count = getattr(expected, name), int(metrics.get(metric, -1))
        if count != number:
            raise InvalidInputError(
                f"Delta would have {name} {count:,} rows instead of {number:,}: several rows "
                "of the files that changed may have one key"
            )
