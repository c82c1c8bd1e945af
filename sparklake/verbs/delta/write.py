"""Writes to Delta tables: commits to a copy of the branch's log, then staged."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake._scratch import scratch_folder
from sparklake.config import disk_root
from sparklake.delta_log.actions import Action, decode_actions, encode_actions
from sparklake.delta_log.delta_commits import is_blind_append, lets_append
from sparklake.delta_log.file_names import LOG_FOLDER, commit_name, commit_version
from sparklake.errors import InvalidInputError, TableChangedError
from sparklake.graveler.guards import Action as Guarded
from sparklake.graveler.ports import Write
from sparklake.rows.objects import FILE_SCHEMA
from sparklake.stores.objects.addresses import spark_uri
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.once import Once, digest_of, once_scope
from sparklake.verbs.base.resolve import get_branch
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.delta.table_copy import BaseTable, copy_log, entry_bodies, new_files, new_log
from sparklake.verbs.tables.formats import log_files
from sparklake.verbs.tables.spark_writer import check_native, save_delta
from sparklake.verbs.tables.version import TableVersion, open_table, table_prefix
from sparklake.verbs.tables.write import (
    check_no_other_table,
    may_write,
    open_table_to_write,
    removals,
    stage_write,
    staged_rows,
)
from sparklake.verbs.tables.write_request import DELTA, RESULT, TableWrite, WriteMode, WriteRequest
from sparklake.verbs.tables.written import begun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_ATTEMPTS = 5
"""The maximum number of attempts of a write with concurrent changes."""

_STAGED_LOG = "_staged_log/"


def write_delta(context: Context, rows: DataFrame, request: WriteRequest) -> TableWrite:
    """Write a DataFrame with Delta, and stage the committed files.

    An append is committed after concurrent commits. Other writes are retried on the new state.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return _write_once(context, rows, request)
        except TableChangedError:
            continue
    return _write_once(context, rows, request)


@contextmanager
def _edit(
    context: Context, branch: str, path: str, *, repeated: bool, history: bool
) -> Iterator[EditLocation]:
    request = WriteRequest(
        branch=branch,
        path=path,
        folder=table_prefix(path),
        format=DELTA,
        mode=WriteMode.OVERWRITE,
        partition_by=(),
        options={},
    )
    table = open_table_to_write(context, request)
    with _copied(context, request, table, history=history) as copy:
        if copy.base.is_new:
            raise InvalidInputError(
                f"{branch!r} has no Delta table at {path!r}: write one with format 'delta'"
            )
        location = EditLocation(copy.location)
        location.repeated = repeated
        yield location
        if not repeated:
            _stage(copy)


class EditLocation(str):
    """The URI of a table copy to edit. `repeated` reports whether the edit was already staged."""

    __slots__ = ("repeated",)

    repeated: bool


@contextmanager
def edit_delta(
    context: Context, branch: str, path: str, once: Once | None = None, *, history: bool = False
) -> Iterator[EditLocation]:
    """Yield the URI of a table copy for Delta to change, and stage the changes at the end.

    The copy has the versions since the latest checkpoint, or with `history` all.

    A repeated edit with an idempotency key is discarded. After a concurrent commit to the table,
    raises TableChangedError and stages nothing.
    """
    if once is None:
        with _edit(context, branch, path, repeated=False, history=history) as location:
            yield location
        return
    digest = digest_of("edit_delta", branch, once, {"path": path})
    with once_scope(context, once, digest, RESULT) as scope:
        repeated = scope.earlier is not None
        edited = context if repeated else scope.context
        with _edit(edited, branch, path, repeated=repeated, history=history) as location:
            yield location
        if not repeated:
            scope.finish(RESULT.encode(TableWrite(path, 0, 0)))


def _write_once(context: Context, rows: DataFrame, request: WriteRequest) -> TableWrite:
    table = open_table_to_write(context, request)
    if not may_write(request, table):
        return TableWrite(request.path, 0, 0)
    with _copied(context, request, table) as copy:
        _check_format(copy, table)
        save_delta(rows, request, copy.location)
        return _stage(copy)


@dataclass(frozen=True, slots=True)
class _Copy:
    context: Context
    request: WriteRequest
    write: Write
    base: BaseTable

    @property
    def location(self) -> str:
        return spark_uri(f"{self.context.info.storage_namespace}/{self.write.place}")


@contextmanager
def _copied(
    context: Context, request: WriteRequest, table: TableVersion, *, history: bool = False
) -> Iterator[_Copy]:
    # Lazy import: writing and the CLI must not pay for importing Spark.
    from sparklake.frames.tables.spark_sources import check_delta

    check_namespace(context.store)
    check_delta(context.runners.session())
    check_native(context)
    with begun(context, request.branch) as write:
        # An append seldom refers to existing files.
        names_files = request.mode is not WriteMode.APPEND
        base = copy_log(context, table, write, names_files=names_files, history=history)
        yield _Copy(context, request, write, base)


def _check_format(copy: _Copy, table: TableVersion) -> None:
    request = copy.request
    if not copy.base.is_new:
        return
    check_no_other_table(request, table)
    if request.mode is not WriteMode.OVERWRITE and table.has_objects:
        raise InvalidInputError(
            f"{request.folder!r} has objects on {request.branch!r}, but no Delta log: "
            "overwrite it, or choose another path"
        )


# --- landing --------------------------------------------------------------------------------------


def _stage(copy: _Copy) -> TableWrite:
    context, request, write = copy.context, copy.request, copy.write
    with scratch_folder(disk_root()) as scratch:
        log = new_log(context, write.place, copy.base, scratch)
        if not log.entries:
            return TableWrite(request.path, 0, 0)
        rows = [
            _put_log_file(copy, f"{at}.json", encode_actions(each))
            for at, each in enumerate(log.entries)
        ]
        checkpoint = {
            name: _put_log_file(copy, name, path.read_bytes())
            for name, path in log.checkpoint.items()
        }
    with new_files(context, request.branch, write.place, copy.base, log.entries) as files:
        staged = _StagedLog(log.entries, rows, checkpoint)
        return with_branch_queue(
            context, request.branch, lambda: _land(context, copy, files, staged)
        )


@dataclass(frozen=True, slots=True)
class _StagedLog:
    """New log files as rows of FILE_SCHEMA: of the entries, and of a checkpoint by name."""

    entries: Sequence[Sequence[Action]]
    rows: Sequence[pa.RecordBatch]
    checkpoint: Mapping[str, pa.RecordBatch]

    def by_name(self, first: int, *, alone: bool) -> Mapping[str, pa.RecordBatch]:
        """Return the rows by log name, from a version on.

        The checkpoint describes the log only if no concurrent entries precede the new ones.
        """
        entries = {commit_name(first + at): row for at, row in enumerate(self.rows)}
        return {**entries, **self.checkpoint} if alone else entries


def _put_log_file(copy: _Copy, name: str, body: bytes) -> pa.RecordBatch:
    name = f"{_STAGED_LOG}{name}"
    copy.context.store.put_if_absent(f"{copy.write.place}/{name}", body)
    checksum = hashlib.md5(body, usedforsecurity=False).hexdigest()
    mtime = pa.array([time.time_ns() // 1000]).cast(FILE_SCHEMA.field("mtime").type)
    columns = [pa.array([name]), pa.array([len(body)]), pa.array([checksum]), mtime]
    return pa.record_batch(columns, schema=FILE_SCHEMA)


@restarts()
def _land(context: Context, copy: _Copy, files: pa.Table, log: _StagedLog) -> TableWrite:
    """Stage data files and log entries, if the table's state still permits them."""
    request, place = copy.request, copy.write.place
    fence = get_branch(context, request.branch).fence
    expected = context.refs.staging.seal(request.branch, Guarded.STAGE)
    table = open_table(context, request.branch, request.path)
    if not may_write(request, table):
        return TableWrite(request.path, 0, 0)
    landed = _landed_meanwhile(copy, log.entries, table)
    logged = {
        f"{LOG_FOLDER}{name}": row
        for name, row in log.by_name(copy.base.files.version + 1 + landed, alone=not landed).items()
    }
    batches = [staged_rows(each, request.folder, place) for each in files.to_batches()]
    for name, row in logged.items():
        batches.append(staged_rows(row, request.folder, place, pa.array([name])))
    if copy.base.is_new:
        _check_format(copy, table)
        new = pa.concat_arrays([*files["name"].chunks, pa.array([*logged], pa.string())])
        batches.extend(removals(request, table, new))
    return stage_write(
        context, request, copy.write, files=files, batches=batches, expected=expected, fence=fence
    )


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
    raise TableChangedError(
        f"nothing was staged: others committed concurrently to the Delta table {request.path!r} "
        f"on {request.branch!r}. Read it again, and repeat the change"
    )
