"""Stage objects and removals: single ones as rows, many as runs."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from sparklake._scratch import scratch_folder
from sparklake.engine.base import Amount, Runner, Source
from sparklake.errors import (
    InvalidInputError,
    InvalidRowsError,
    ObjectNotFoundError,
    RefStoreUnavailableError,
)
from sparklake.graveler.chunks import chunked
from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import existing_key, object_key
from sparklake.graveler.ports import BranchState, WriteState
from sparklake.graveler.records import Record, tombstone
from sparklake.graveler.times import shown_nanoseconds
from sparklake.namespace.addresses import new_data_key
from sparklake.namespace.markers import is_sweep_open
from sparklake.rows.objects import STAGE_SCHEMA, ObjectInfo, object_record
from sparklake.stores.objects.local.files import store_errors, stream_md5
from sparklake.udfs.staged_rows import stage_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.once import ResultCodec
from sparklake.verbs.base.read import list_objects
from sparklake.verbs.base.resolve import open_branch
from sparklake.verbs.base.runner import restarts
from sparklake.verbs.base.snapshot import open_snapshot
from sparklake.verbs.base.staging import INLINE_ROWS, rows_by_path, write_meta_run
from sparklake.verbs.objects.owners import warn_of_keys, warn_of_ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")

RESULT: ResultCodec[ObjectInfo] = ResultCodec(asdict, lambda _, stored: ObjectInfo(**stored))
"""The stored form of a staged object, for idempotency keys."""

_BATCH_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Labels:
    """The metadata and content type for all objects of a call."""

    metadata: Mapping[str, str]
    content_type: str


@restarts()
def put_bytes(context: Context, branch: str, path: str, body: bytes, labels: Labels) -> ObjectInfo:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidInputError(
            f"the body of {path!r} is {type(body)}: use bytes, or `put_file` for a file"
        )
    state = open_branch(context, branch, Action.STAGE)
    check_namespace(context.store)
    new = object_of_body(context, path, body, labels)
    warn_of_keys(context, state, [new.record[0]])
    context.store.put_if_absent(new.key, body)
    once = context.recorded(new.info)
    context.refs.staging.put(branch, [new.record], fence=state.fence, once=once)
    return new.info


def put_file(context: Context, branch: str, path: str, file: Path, labels: Labels) -> ObjectInfo:
    """Copy a local file of any size to a new key and stage it."""
    if not file.is_file():
        instead = " but a folder: use put_folder" if file.is_dir() else ""
        raise InvalidInputError(f"{file} is not a file{instead}")
    object_key(path)
    open_branch(context, branch, Action.STAGE)
    check_namespace(context.store)
    with scratch_folder() as scratch:
        # Copy: a store may hard-link the file, and the user's file may change.
        copy = scratch / "object"
        with store_errors(file):
            shutil.copyfile(file, copy)
        return put_copy(context, branch, path, copy, labels)


@restarts()
def put_copy(context: Context, branch: str, path: str, copy: Path, labels: Labels) -> ObjectInfo:
    """Move an immutable file to a new key and stage it."""
    state = open_branch(context, branch, Action.STAGE)
    new = object_of_copy(context, path, copy, labels)
    warn_of_keys(context, state, [new.record[0]])
    size, progress = new.info.size, context.runners.progress
    progress.begin_objects(lambda: Amount(1, size))
    progress.advance_objects(1, size - write_files(context, {new.key: copy}))
    once = context.recorded(new.info)
    context.refs.staging.put(branch, [new.record], fence=state.fence, once=once)
    return new.info


def write_files(context: Context, files: Mapping[str, Path]) -> int:
    """Write new objects from files; return the bytes already reported as progress."""
    reported = list[int]()

    def watch(size: int) -> None:
        reported.append(size)
        context.runners.progress.advance_objects(0, size)

    context.store.put_files_if_absent(files, watch)
    return sum(reported)


def delete_object(context: Context, branch: str, path: str) -> None:
    """Stage the removal of an object, existing or not."""
    removal = tombstone(existing_key(path))
    context.refs.staging.put(branch, [removal], fence=None, once=context.recorded(None))


@restarts()
def delete_prefix(context: Context, branch: str, prefix: str, also: Sequence[str] = ()) -> int:
    """Stage the removal of a prefix and of existing `also` paths; return their number."""
    fence = open_branch(context, branch, Action.STAGE).fence
    paths = chain(also, (each.path for each in list_objects(context, branch, prefix)))
    return stage_each(context, branch, "rm", paths, deletions, fence=fence)


@restarts(versions=True)
def stage_rows(context: Context, branch: str, rows: pa.Table | DataFrame) -> None:
    """Stage rows of STAGE_SCHEMA as one run: all rows, or none if one is invalid."""
    state = open_branch(context, branch, Action.STAGE)
    names = rows.schema.names if isinstance(rows, pa.Table) else getattr(rows, "columns", None)
    if names is None:
        raise InvalidInputError(f"stage needs an Arrow table or a DataFrame, not {type(rows)}")
    _check_columns(names)
    source: Source = rows
    if isinstance(rows, pa.Table):
        runner = context.runner(rows.num_rows, "stage", branch)
    else:
        runner = context.runners.on_spark(context.title("stage", branch))
        source = rows_by_path(rows)
    # During a sweep, only objects that are already named may be named. For rows this is unknown.
    closed = is_sweep_open(context.store)
    stage_batches(context, branch, runner, source, fence=state.fence, closed=closed, warns_on=state)


def stage_each(
    context: Context,
    branch: str,
    verb: str,
    items: Iterable[T],
    encode: Callable[[list[T]], pa.RecordBatch],
    *,
    fence: int,
    result: Callable[[int], object] = int,
) -> int:
    """Stage items as one run, chunk by chunk, as `stage_batches` does. Return their number."""
    count = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal count
        for chunk in chunked(items, _BATCH_ROWS):
            count += len(chunk)
            yield encode(chunk)

    runner = context.runner(0, verb, branch)
    stage_batches(context, branch, runner, rows(), fence=fence, result=lambda: result(count))
    return count


def stage_batches(
    context: Context,
    branch: str,
    runner: Runner,
    batches: Source,
    expected: BranchState | None = None,
    write: str | None = None,
    *,
    fence: int,
    closed: bool = False,
    result: Callable[[], object] = lambda: None,
    warns_on: BranchState | None = None,
) -> None:
    """Stage batches of STAGE_SCHEMA as one run, or nothing if they are empty.

    The fence must be older than the ranges of the run and everything they reference. A change of
    the branch after its sealed state `expected` raises RaceLostError. `write` is the id of the
    finished write. `closed` rejects addresses in the namespace. `result`, called after the batches
    are read, returns the verb's result for the idempotency key. `warns_on` is the state of the
    branch whose tables the run should not be part of.
    """
    check_namespace(context.store)
    encode = partial(stage_body, context.workspace, time.time_ns(), closed=closed)
    run = write_meta_run(context, runner, encode, batches)
    if not run.ranges:
        return
    if warns_on is not None:
        warn_of_ranges(context, warns_on, run.ranges)
    try:
        once = context.recorded(result())
        context.refs.staging.add_run(branch, run.id, expected, write, fence=fence, once=once)
    except RefStoreUnavailableError:
        # The change may have been made and only the answer lost. A retry would add the rows twice.
        if write is None or not _has_landed(context, write):
            raise


def _has_landed(context: Context, write: str) -> bool:
    state = context.refs.writes.find(write)
    return state is not None and state.state is WriteState.DONE


def deletions(paths: Sequence[str] | pa.Array) -> pa.RecordBatch:
    """Return the rows of STAGE_SCHEMA for deleted paths."""
    values = {"path": pa.array(paths, pa.string()), "deleted": pa.repeat(True, len(paths))}
    columns = [values.get(each.name, pa.nulls(len(paths), each.type)) for each in STAGE_SCHEMA]
    return pa.record_batch(columns, schema=STAGE_SCHEMA)


@dataclass(frozen=True, slots=True)
class StagedObject:
    """An object to stage, and the new key for its body."""

    key: str
    info: ObjectInfo
    record: Record


def new_object(
    context: Context, path: str, size: int, checksum: str, labels: Labels
) -> StagedObject:
    """Validate an unwritten object."""
    namespace = context.info.storage_namespace
    key = new_data_key()
    info = ObjectInfo(
        path=path,
        size=size,
        checksum=checksum,
        mtime=shown_nanoseconds(time.time_ns()),
        address=f"{namespace}/{key}",
        metadata=dict(labels.metadata),
        content_type=labels.content_type or DEFAULT_CONTENT_TYPE,
    )
    return StagedObject(key, info, object_record(info, namespace))


def object_of_body(context: Context, path: str, body: bytes, labels: Labels) -> StagedObject:
    checksum = hashlib.md5(body, usedforsecurity=False).hexdigest()
    return new_object(context, path, len(body), checksum, labels)


def object_of_copy(context: Context, path: str, copy: Path, labels: Labels) -> StagedObject:
    with copy.open("rb") as file:
        checksum = stream_md5(file)
    return new_object(context, path, copy.stat().st_size, checksum, labels)


def _check_columns(names: Sequence[str]) -> None:
    columns, allowed = set(names), set(STAGE_SCHEMA.names)
    if len(columns) < len(names):
        raise InvalidRowsError(
            f"one of the columns {sorted(names)} occurs twice: use each name once"
        )
    required = {"path"} if "deleted" in columns else {"path", "size", "address"}
    if not required <= columns <= allowed:
        raise InvalidRowsError(
            f"the columns {sorted(columns)} cannot be staged: {sorted(required)} are required and "
            f"{sorted(allowed - required)} allowed"
        )


def remove_object(context: Context, branch: str, path: str) -> int:
    """Stage the removal of one existing object, and return 1."""
    open_snapshot(context, branch).stat(path)
    removal = tombstone(existing_key(path))
    context.refs.staging.put(branch, [removal], fence=None, once=context.recorded(1))
    return 1


@restarts()
def remove_objects(context: Context, branch: str, paths: Sequence[str]) -> int:
    """Stage the removal of the existing `paths`, and return their number."""
    fence = open_branch(context, branch, Action.STAGE).fence
    snapshot = open_snapshot(context, branch)
    existing = [path for path in dict.fromkeys(paths) if snapshot.exists(path)]
    if len(existing) > INLINE_ROWS:
        return stage_each(context, branch, "rm", existing, deletions, fence=fence)
    removals = [tombstone(existing_key(path)) for path in existing]
    once = context.recorded(len(existing))
    context.refs.staging.put(branch, removals, fence=None, once=once)
    return len(existing)


def remove_folder(context: Context, branch: str, path: str) -> int:
    """Stage the removal of a folder and, without a trailing slash, of the object at the path."""
    is_folder = not path or path.endswith("/")
    also = [] if is_folder or not open_snapshot(context, branch).exists(path) else [path]
    removed = delete_prefix(context, branch, path if is_folder else f"{path}/", also)
    if not removed:
        raise ObjectNotFoundError(
            f"{branch!r} has no objects below {path!r}; `sparklake ls` shows its objects"
        )
    return removed
