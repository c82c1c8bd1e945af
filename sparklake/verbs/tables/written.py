"""A table's written files, and the register of writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import islice, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake._scratch import scratch_folder
from sparklake.config import Engine, disk_root
from sparklake.engine.base import Runner
from sparklake.errors import NotFoundError, RefStoreUnavailableError, WriteFinishedError
from sparklake.graveler.arrow_batches import pack_batches
from sparklake.graveler.ports import ObjectStore, StoredObject, Write, WriteState
from sparklake.namespace.layout import DATA_FOLDER
from sparklake.rows.objects import FILE_SCHEMA
from sparklake.udfs.tables import checksum_body
from sparklake.udfs.tasks import task_table
from sparklake.verbs.base.context import Context, OnceRun

READ_BY_TASKS_BYTES = 256 * 1024 * 1024
"""The size from which the files of a write are hashed or uploaded by Spark tasks."""

_BATCH_ROWS = 8192
_SHARE_BYTES = 128 * 1024 * 1024
_MICROSECOND = 1_000
"""Nanoseconds per microsecond."""

_TEMPORARY = "_temporary"
_RUN_LETTERS = 16
"""The number of digits of a write's id that stand for a once key."""


@contextmanager
def written_files(
    context: Context, branch: str, place: str, names: pa.Array | None = None
) -> Iterator[pa.Table]:
    """Yield the files in a place as FILE_SCHEMA, on local disk until the end.

    Only committed files, and of them the given `names`, are listed: Spark's committer keeps other
    files below `_temporary` until the commit, and then removes them.
    """
    with kept(_named(visible_files(context.store, f"{place}/"), names)) as files:
        if pc.all(pc.not_equal(files["checksum"], "")).as_py():
            yield files
        else:
            with kept(_hashed(context, branch, place, files)) as whole:
                yield whole


@contextmanager
def kept(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Write batches of FILE_SCHEMA to a file, and yield them as a memory-mapped table."""
    with scratch_folder(disk_root()) as scratch:
        path = str(scratch / "files")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, FILE_SCHEMA) as writer:
            for batch in batches:
                writer.write_batch(batch)
        with pa.memory_map(path) as source:
            yield pa.ipc.open_file(source).read_all()


def visible_files(store: ObjectStore, prefix: str) -> Iterator[pa.RecordBatch]:
    """Yield the files under a prefix, without hidden and uncommitted ones."""
    found = (each for each in store.list(prefix) if _counts(each.key.removeprefix(prefix)))
    while chunk := list(islice(found, _BATCH_ROWS)):
        yield _rows(chunk, len(prefix))


def _named(batches: Iterable[pa.RecordBatch], names: pa.Array | None) -> Iterator[pa.RecordBatch]:
    for each in batches:
        if names is None:
            yield each
        else:
            yield each.filter(pc.is_in(each.column("name"), value_set=names))


def _rows(found: list[StoredObject], cut: int) -> pa.RecordBatch:
    mtimes = pa.array([each.mtime // _MICROSECOND for each in found])
    return pa.record_batch(
        [
            pa.array([each.key[cut:] for each in found], pa.string()),
            pa.array([each.size for each in found], pa.int64()),
            pa.array([each.checksum for each in found], pa.string()),
            mtimes.cast(FILE_SCHEMA.field("mtime").type),
        ],
        schema=FILE_SCHEMA,
    )


def _counts(name: str) -> bool:
    # Hadoop's local file system leaves a `.part-0.crc` next to each file. Folders with these names
    # contain files that a committer has not moved or could not remove.
    first, _, _ = name.partition("/")
    hidden = name.rpartition("/")[2].startswith(".") or first.startswith(".spark-staging")
    return first != _TEMPORARY and not hidden


def _hashed(context: Context, branch: str, place: str, files: pa.Table) -> Iterator[pa.RecordBatch]:
    runner = bytes_runner(context, branch, int(pc.sum(files["size"]).as_py() or 0))
    return runner.collect(partial(checksum_body, context.workspace, place), file_shares(files))


def bytes_runner(context: Context, branch: str, size: int) -> Runner:
    """Return the runner for tasks reading this many bytes."""
    if context.runners.engine is not Engine.LOCAL and size >= READ_BY_TASKS_BYTES:
        return context.runners.on_spark(context.title("write", branch))
    return context.runner(0, "write", branch)


def file_shares(files: pa.Table) -> pa.Table:
    """Return files as rows of TASK_SCHEMA, each of up to 8,192 files or about 128 MiB."""
    before = np.cumsum(files["size"].to_numpy()) // _SHARE_BYTES
    cuts = {*np.flatnonzero(np.diff(before)) + 1, *range(0, files.num_rows, _BATCH_ROWS)}
    bounds = [*sorted(cuts), files.num_rows]
    packed = [
        pack_batches(files.slice(one, other - one).to_batches()) for one, other in pairwise(bounds)
    ]
    return task_table(packed)


@contextmanager
def begun(context: Context, branch: str) -> Iterator[Write]:
    """Register a write to a new place, and abandon it at the end unless it landed.

    The write stays open if its driver dies, or if Postgres is unreachable at the end. A run with an
    idempotency key abandons the open writes of earlier runs with this key.
    """
    name = uuid.uuid4().hex
    if context.once is not None:
        name = f"{_abandon_earlier(context, context.once)}{name[_RUN_LETTERS:]}"
    write = context.refs.writes.begin(name, f"{DATA_FOLDER}{name}", branch, context.committer)
    try:
        yield write
    finally:
        with suppress(RefStoreUnavailableError):
            context.refs.writes.abandon([write.id])


def _abandon_earlier(context: Context, run: OnceRun) -> str:
    """Abandon the writes of earlier runs with an idempotency key, and return their id prefix.

    The key's queue slot is held: earlier runs died or lost the slot, and must not stage any more.
    """
    prefix = sha256(run.key.encode()).hexdigest()[:_RUN_LETTERS]
    open_ids = [each.id for each in context.refs.writes.list() if each.state is WriteState.OPEN]
    earlier = [each for each in open_ids if each.startswith(prefix)]
    if earlier:
        context.refs.writes.abandon(earlier)
    return prefix


def list_writes(context: Context) -> Sequence[Write]:
    """Return the open and abandoned writes."""
    return context.refs.writes.list()


def abandon_write(context: Context, write_id: str) -> Write:
    """Abandon an open write, and return it. Repeated calls are no-ops.

    Raises:
        NotFoundError: The write does not exist.
        WriteFinishedError: The write landed.
    """
    found = next(iter(context.refs.writes.abandon([write_id])), None)
    found = found or context.refs.writes.find(write_id)
    if found is None:
        raise NotFoundError(
            f"{context.info.name} has no write {write_id!r}; `sparklake writes` shows the "
            "open and abandoned writes"
        )
    if found.state is WriteState.DONE:
        raise WriteFinishedError.of(write_id, found.branch)
    return found
