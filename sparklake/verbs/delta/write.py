"""Writes to Delta tables: commits to a copy of the branch's log, then staged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sparklake._scratch import scratch_folder
from sparklake.metadata.delta.actions import Action, decode_actions, encode_actions
from sparklake.metadata.delta.delta_commits import is_blind_append, lets_append
from sparklake.metadata.delta.file_names import LOG_FOLDER, commit_name, commit_version
from sparklake.session import quoted
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.delta.checkpoint_files import log_files
from sparklake.verbs.delta.table_copy import BaseTable, copy_log, entry_bodies, new_log, new_names
from sparklake.verbs.tables.edits import TableCopy
from sparklake.verbs.tables.spark_writer import check_native, save_delta
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.write_request import TableWrite, WriteMode, WriteRequest
from sparklake.verbs.tables.written import begun, named_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class _Copy(TableCopy):
    metadata = "Delta log"
    base: BaseTable

    @property
    def sql_name(self) -> str:
        return f"delta.{quoted(self.location)}"

    def save(self, rows: DataFrame) -> None:
        save_delta(rows, self.request, self.location)

    def stage(self) -> TableWrite:
        context, request, write = self.context, self.request, self.write
        with scratch_folder() as scratch:
            log = new_log(context, write.place, self.base, scratch)
            if not log.entries:
                return TableWrite(request.path)
            rows = [
                self.put(f"{at}.json", encode_actions(each)) for at, each in enumerate(log.entries)
            ]
            checkpoint = {
                name: self.put(name, path.read_bytes()) for name, path in log.checkpoint.items()
            }
        names = new_names(self.base, log.entries)
        with named_files(context, request.branch, write.place, names, "Delta") as files:
            return self.land(files, partial(_log_rows, self, log.entries, rows, checkpoint))


@contextmanager
def delta_copy(
    context: Context, request: WriteRequest, table: TableVersion, *, history: bool = False
) -> Iterator[_Copy]:
    # Lazy import: writing and the CLI must not pay for importing Spark.
    from sparklake.frames.tables.spark_sources import check_delta, forget_delta

    spark = context.runners.session()
    check_namespace(context.store)
    check_delta(spark)
    check_native(context)
    with begun(context, request.branch) as write:
        # An append seldom refers to existing files.
        names_files = request.mode is not WriteMode.APPEND
        base = copy_log(context, table, write, names_files=names_files, history=history)
        copy = _Copy(context, request, write, base.is_new, base)
        try:
            yield copy
        finally:
            forget_delta(spark, copy.location)


# --- landing --------------------------------------------------------------------------------------


def _log_rows(
    copy: _Copy,
    entries: Sequence[Sequence[Action]],
    rows: Sequence[pa.RecordBatch],
    checkpoint: Mapping[str, pa.RecordBatch],
    table: TableVersion,
) -> Mapping[str, pa.RecordBatch]:
    """Return the rows for new entries and a checkpoint, by their names in the table."""
    landed = _landed_meanwhile(copy, entries, table)
    first = copy.base.files.version + 1 + landed
    by_name = {commit_name(at): row for at, row in enumerate(rows, first)}
    if not landed:
        # The checkpoint describes the log only if no concurrent entries precede the new ones.
        by_name.update(checkpoint)
    return {f"{LOG_FOLDER}{name}": row for name, row in by_name.items()}


def _landed_meanwhile(copy: _Copy, entries: Sequence[Sequence[Action]], table: TableVersion) -> int:
    """Count the concurrent entries, or raise TableChangedError unless the write is valid."""
    request, base, now = copy.request, copy.base, dict(log_files(table))
    versions = (each for each in map(commit_version, now) if each is not None)
    newer = sorted(each for each in versions if each > base.files.version)
    same = all(
        name in now and now[name].checksum == base.log[name].checksum for name in base.files.names
    )
    if same and not newer:
        return 0
    after = base.files.version + 1
    if same and not base.is_new and newer == list(range(after, after + len(newer))):
        landed = entry_bodies(now, tuple(map(commit_name, newer)), request.branch)
        if all(map(is_blind_append, entries)) and all(
            lets_append(decode_actions(body, name), appended)
            for name, body in landed
            for appended in entries
        ):
            return len(newer)
    raise copy.changed()
