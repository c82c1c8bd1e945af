"""Delta tables at a ref: their log, with addresses of the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklake._scratch import scratch_folder
from sparklake.config import disk_root
from sparklake.delta_log.actions import SECOND_FORM, has_any
from sparklake.delta_log.file_names import (
    LAST_CHECKPOINT,
    LOG_FOLDER,
    LogListing,
    checkpoint_key,
    log_key,
    log_listing,
)
from sparklake.delta_log.rewrite import (
    Resolve,
    Rewrite,
    rewritten_batch,
    rewritten_commit,
    to_addresses,
)
from sparklake.delta_log.table_files import data_files, hashes, repeated, unlike
from sparklake.delta_log.view_log import checkpointed_commit, last_checkpoint
from sparklake.errors import (
    CorruptFileError,
    InvalidInputError,
    MissingFileError,
    ObjectNotFoundError,
    SparklakeError,
)
from sparklake.namespace.layout import VIEWS_FOLDER
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects import open_object
from sparklake.stores.objects.addresses import spark_uris
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.formats import VERSION_AS_OF, log_files
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.view import View, view_of, write_checkpoint
from sparklake.verbs.tables.write_request import DELTA

_TIMESTAMP_AS_OF = "timestampAsOf"

_Log = LogListing[ObjectInfo]
"""The files of a Delta log at a ref."""


def find_delta_view(context: Context, table: TableVersion, options: Mapping[str, Any]) -> View:
    """Return the view of a Delta table, and write it if necessary.

    The view is the part of the table's log that a reader of one version needs. Every path in it is
    the address of the object at the ref.
    """
    log = _listed(table)
    version = _version(options, log, table)
    base = max((each for each in log.checkpoints if each <= version), default=None)
    commits = _commits(log, base, version, table)
    view = view_of(context, table, version, DELTA)
    if not view.exists:
        _write(context, view, table, log, base, commits)
    return view


def _version(options: Mapping[str, Any], log: _Log, table: TableVersion) -> int:
    asked = {name.lower(): value for name, value in options.items()}
    if _TIMESTAMP_AS_OF.lower() in asked:
        raise InvalidInputError(
            f"{_TIMESTAMP_AS_OF} is not supported, because it uses the times of files, and a "
            f"version of {table.path!r} may have newer copies: use a ref, `timestamp`, or "
            f"{VERSION_AS_OF}"
        )
    latest = max(log.versions)
    text = str(asked.get(VERSION_AS_OF.lower(), latest))
    if not re.fullmatch("[0-9]+", text) or int(text) > latest:
        raise InvalidInputError(
            f"{table.path!r} has no version {text} at {table.ref!r}: the latest is {latest}"
        )
    return int(text)


def _listed(table: TableVersion) -> _Log:
    log = log_listing(log_files(table), classic=True)
    if not log.versions:
        raise ObjectNotFoundError(
            f"{table.ref!r} has no Delta table under {table.path!r}: no log was found in "
            f"{table.folder + LOG_FOLDER!r}"
        )
    return log


def _commits(
    log: _Log, base: int | None, version: int, table: TableVersion
) -> dict[int, ObjectInfo]:
    """Return the commits of a version since a checkpoint."""
    numbers = range(0 if base is None else base + 1, version + 1)
    missing = [each for each in numbers if each not in log.commits]
    if missing:
        raise MissingFileError(
            f"the Delta log of {table.path!r} at {table.ref!r} has no "
            f"{log_key(missing[0])!r}, which its version {version} needs: restore the file, "
            "or read a version after a later checkpoint"
        )
    first = [] if base is None or base not in log.commits else [base]
    return {each: log.commits[each] for each in (*first, *numbers)}


def _write(
    context: Context,
    view: View,
    table: TableVersion,
    log: _Log,
    base: int | None,
    commits: Mapping[int, ObjectInfo],
) -> None:
    rewrite = to_addresses(_resolver(context, table))
    files: dict[str, Path | bytes] = {
        log_key(number): rewritten_commit(read_body(each, table.ref), log_key(number), rewrite)
        for number, each in commits.items()
    }
    if base is None:
        view.put(files)
        return
    files.setdefault(log_key(base), checkpointed_commit())
    with scratch_folder(disk_root()) as scratch:
        made = scratch / "checkpoint.parquet"
        size = _write_checkpoint(table, log.checkpoints[base], rewrite, scratch, made)
        files[checkpoint_key(base)] = made
        files[LAST_CHECKPOINT] = last_checkpoint(base, size)
        view.put(files)


def _write_checkpoint(
    table: TableVersion, parts: Sequence[ObjectInfo], rewrite: Rewrite, scratch: Path, made: Path
) -> int:
    """Join a checkpoint's parts into one file, and return its number of actions."""
    local = []
    for number, part in enumerate(parts):
        store, key = open_object(part.address)
        local.append(scratch / str(number))
        store.get_to_file(key, local[-1])
    try:
        schema = pq.read_schema(local[0])
    except (pa.ArrowException, OSError) as error:
        raise _damaged(table, error) from error
    return write_checkpoint(made, schema, _rewritten(table, local, rewrite))


def _rewritten(
    table: TableVersion, parts: list[Path], rewrite: Rewrite
) -> Iterator[pa.RecordBatch]:
    """Yield the actions of a checkpoint, with paths replaced with addresses."""
    for part in parts:
        try:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches():
                    _check_form(table, batch)
                    yield rewritten_batch(batch, rewrite)
        except SparklakeError:
            raise  # A store that fails while addresses are looked up raises an OSError, too.
        except (pa.ArrowException, OSError) as error:
            raise _damaged(table, error) from error


def _damaged(table: TableVersion, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        f"a checkpoint in the Delta log of {table.path!r} at {table.ref!r} is not Parquet: {error}"
    )


def _check_form(table: TableVersion, batch: pa.RecordBatch) -> None:
    if has_any(batch, *SECOND_FORM):
        raise InvalidInputError(
            f"the Delta log of {table.path!r} at {table.ref!r} has a V2 checkpoint "
            "(v2Checkpoint), which is not supported: set delta.checkpointPolicy to classic "
            "on the table, and write a new checkpoint"
        )


def _resolver(context: Context, table: TableVersion) -> Resolve:
    """Return a function from paths to addresses, distinct even for shared files."""
    files = data_files(table.objects.batches(), table.folder, spark_uris)
    shared = repeated(hashes(batch.column("uri")) for batch in files)
    nowhere = f"{context.info.storage_namespace}/{VIEWS_FOLDER}no-longer-there/{table.folder}"

    def resolve(relative: pa.Array) -> pa.Array:
        paths = pa.array([table.folder + each for each in relative.to_pylist()], pa.string())
        # Old versions name removed files. These get an address where no object is.
        absent = pa.array([nowhere + each for each in relative.to_pylist()], pa.string())
        found = pc.coalesce(table.snapshot.lookup(paths).column("address"), absent)
        return unlike(spark_uris(found.combine_chunks()), relative, shared)

    return resolve
