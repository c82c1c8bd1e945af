"""Files written to tables, and the registry of writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake._scratch import scratch_folder
from sparklake.config import Engine
from sparklake.engine.base import Runner
from sparklake.errors import (
    MissingFileError,
    NotFoundError,
    RefStoreUnavailableError,
    WriteFinishedError,
)
from sparklake.graveler.arrow_batches import pack_batches
from sparklake.graveler.chunks import chunked
from sparklake.graveler.entries import Entry
from sparklake.graveler.ports import ObjectStore, Write, WriteState
from sparklake.graveler.times import MICROSECOND
from sparklake.layout import DATA_FOLDER
from sparklake.rows.objects import FILE_SCHEMA
from sparklake.udfs.tables import checksum_body
from sparklake.udfs.tasks import task_table
from sparklake.verbs.base.context import Context, OnceRun

READ_BY_TASKS_BYTES = 256 * 1024 * 1024
"""The minimum size of a write for Spark tasks to hash or upload its files."""

_BATCH_ROWS = 8192
_SHARE_BYTES = 128 * 1024 * 1024
_TEMPORARY = "_temporary"
_RUN_LETTERS = 16
"""The number of digits of a write's id that identify an idempotency key."""


@contextmanager
def written_files(
    context: Context, branch: str, place: str, names: pa.Array | None = None
) -> Iterator[pa.Table]:
    """Yield the committed files in a place as FILE_SCHEMA, with `names` only the given ones.

    Spark's committer keeps other files below `_temporary` until the commit, and then removes them.
    """
    batches = visible_files(context.store, f"{place}/")
    if names is not None:
        batches = (each.filter(pc.is_in(each.column("name"), value_set=names)) for each in batches)
    with kept(batches) as files:
        if pc.all(pc.not_equal(files["checksum"], "")).as_py():
            yield files
        else:
            runner = bytes_runner(context, branch, int(pc.sum(files["size"]).as_py() or 0))
            hashes = partial(checksum_body, context.workspace, place)
            with kept(runner.collect(hashes, file_shares(files))) as whole:
                yield whole


@contextmanager
def named_files(
    context: Context, branch: str, place: str, names: pa.Array, engine: str
) -> Iterator[pa.Table]:
    """Yield the files that an engine committed in a place, as FILE_SCHEMA."""
    with written_files(context, branch, place, names) as files:
        if files.num_rows != len(names):
            raise MissingFileError(
                f"{len(names) - files.num_rows} of the files that {engine} wrote to {place} are "
                "missing: check that driver and executors see the same storage"
            )
        yield files


@contextmanager
def kept(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches of FILE_SCHEMA as a memory-mapped table on local disk."""
    with scratch_folder() as scratch:
        path = str(scratch / "files")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, FILE_SCHEMA) as writer:
            for batch in batches:
                writer.write_batch(batch)
        with pa.memory_map(path) as source:
            yield pa.ipc.open_file(source).read_all()


def visible_files(store: ObjectStore, prefix: str) -> Iterator[pa.RecordBatch]:
    objects = (each for each in store.list(prefix) if _is_visible(each.key.removeprefix(prefix)))
    for chunk in chunked(objects, _BATCH_ROWS):
        mtimes = pa.array([each.mtime // MICROSECOND for each in chunk])
        columns = [
            pa.array([each.key.removeprefix(prefix) for each in chunk], pa.string()),
            pa.array([each.size for each in chunk], pa.int64()),
            pa.array([each.checksum for each in chunk], pa.string()),
            mtimes.cast(FILE_SCHEMA.field("mtime").type),
        ]
        yield pa.record_batch(columns, schema=FILE_SCHEMA)


def _is_visible(name: str) -> bool:
    # Hadoop's local file system leaves a `.part-0.crc` next to each file. Folders with these names
    # contain files that a committer has not moved or could not remove.
    first, _, _ = name.partition("/")
    hidden = name.rpartition("/")[2].startswith(".") or first.startswith(".spark-staging")
    return first != _TEMPORARY and not hidden


def bytes_runner(context: Context, branch: str, size: int) -> Runner:
    if context.runners.engine is not Engine.LOCAL and size >= READ_BY_TASKS_BYTES:
        return context.runners.on_spark(context.title("write", branch))
    return context.runner(0, "write", branch)


def file_shares(files: pa.Table) -> pa.Table:
    """Pack files into TASK_SCHEMA, at most 8,192 files or about 128 MiB per row."""
    before = np.cumsum(files["size"].to_numpy()) // _SHARE_BYTES
    cuts = {*np.flatnonzero(np.diff(before)) + 1, *range(0, files.num_rows, _BATCH_ROWS)}
    bounds = [*sorted(cuts), files.num_rows]
    packed = [
        pack_batches(files.slice(one, other - one).to_batches()) for one, other in pairwise(bounds)
    ]
    return task_table(packed)


@contextmanager
def begun(context: Context, branch: str) -> Iterator[Write]:
    """Register a write; abandon it at the end unless it is staged or Postgres is unreachable."""
    write = register_write(context, branch)
    try:
        yield write
    finally:
        with suppress(RefStoreUnavailableError):
            context.refs.writes.abandon([write.id])


def register_write(context: Context, branch: str) -> Write:
    name = uuid.uuid4().hex
    if context.once is not None:
        name = f"{_abandon_earlier(context, context.once)}{name[_RUN_LETTERS:]}"
    return context.refs.writes.begin(name, f"{DATA_FOLDER}{name}", branch, context.committer)


def run_prefix(key: str) -> str:
    """Return the prefix of the ids of all writes with an idempotency key."""
    return sha256(key.encode()).hexdigest()[:_RUN_LETTERS]


def _abandon_earlier(context: Context, run: OnceRun) -> str:
    """Abandon the open writes of earlier runs with an idempotency key; return their id prefix.

    The key's queue slot is held: earlier runs died or lost the slot, and must not stage anything.
    """
    prefix = run_prefix(run.key)
    open_ids = [each.id for each in context.refs.writes.list() if each.state is WriteState.OPEN]
    earlier = [each for each in open_ids if each.startswith(prefix)]
    if earlier:
        context.refs.writes.abandon(earlier)
    return prefix


def abandon_write(context: Context, write_id: str) -> Write:
    """Abandon an open write, and return it. Repeated calls are no-ops."""
    write = next(iter(context.refs.writes.abandon([write_id])), None)
    write = write or context.refs.writes.find(write_id)
    if write is None:
        raise NotFoundError(
            f"{context.info.name} has no write {write_id!r}; `sparklake writes` shows the "
            "open and abandoned writes"
        )
    if write.state is WriteState.DONE:
        raise WriteFinishedError.of(write_id, write.branch)
    return write


def file_entries(place: str, files: pa.Table) -> Iterator[tuple[str, Entry]]:
    """Yield the names and entries of files of FILE_SCHEMA."""
    mtimes = files["mtime"].cast(pa.int64()).to_pylist()
    columns = (files[each].to_pylist() for each in ("name", "size", "checksum"))
    for name, size, checksum, mtime in zip(*columns, mtimes, strict=True):
        yield name, Entry(f"{place}/{name}", size, checksum, mtime * MICROSECOND)
