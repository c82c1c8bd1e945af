"""Views of Delta tables at a ref."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklake import errors
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


def find_delta_view(context: Context, table: TableVersion, options: Mapping[str, Any]) -> View:
    """Find or write the view: the log for one version, with addresses as paths."""
    log = log_listing(log_files(table), classic=True)
    if not log.versions:
        raise errors.ObjectNotFoundError(
            f"{table.ref!r} has no Delta table under {table.path!r}: no log was found in "
            f"{table.folder + LOG_FOLDER!r}"
        )
    version = _version(options, log, table)
    base = max((each for each in log.checkpoints if each <= version), default=None)
    commits = _commits(log, base, version, table)
    view = view_of(context, table, version, DELTA)
    if not view.exists:
        _write(context, view, table, log, base, commits)
    return view


def _version(options: Mapping[str, Any], log: _Log, table: TableVersion) -> int:
    values = {name.lower(): value for name, value in options.items()}
    if _TIMESTAMP_AS_OF.lower() in values:
        raise errors.InvalidInputError(
            f"{_TIMESTAMP_AS_OF} is not supported, because it uses file times, and a "
            f"version of {table.path!r} may have newer copies: use a ref, `timestamp`, or "
            f"{VERSION_AS_OF}"
        )
    latest = max(log.versions)
    text = str(values.get(VERSION_AS_OF.lower(), latest))
    if not re.fullmatch("[0-9]+", text) or int(text) > latest:
        raise errors.InvalidInputError(
            f"{table.path!r} has no version {text} at {table.ref!r}: the latest is {latest}"
        )
    return int(text)


def _commits(
    log: _Log, base: int | None, version: int, table: TableVersion
) -> dict[int, ObjectInfo]:
    numbers = range(0 if base is None else base + 1, version + 1)
    missing = [each for each in numbers if each not in log.commits]
    if missing:
        raise errors.MissingFileError(
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
        parts = []
        for number, part in enumerate(log.checkpoints[base]):
            store, key = open_object(part.address)
            parts.append(scratch / str(number))
            store.get_to_file(key, parts[-1])
        try:
            schema = pq.read_schema(parts[0])
        except (pa.ArrowException, OSError) as error:
            raise _damaged(table, error) from error
        whole = scratch / "checkpoint.parquet"
        size = write_checkpoint(whole, schema, _rewritten(table, parts, rewrite))
        view.put(
            {**files, checkpoint_key(base): whole, LAST_CHECKPOINT: last_checkpoint(base, size)}
        )


def _rewritten(
    table: TableVersion, parts: Sequence[Path], rewrite: Rewrite
) -> Iterator[pa.RecordBatch]:
    """Yield the actions of a checkpoint with addresses as paths."""
    for part in parts:
        try:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches():
                    if has_any(batch, *SECOND_FORM):
                        raise errors.InvalidInputError(
                            f"the Delta log of {table.path!r} at {table.ref!r} has a V2 checkpoint "
                            "(v2Checkpoint), which is not supported: set delta.checkpointPolicy to "
                            "classic on the table, and write a new checkpoint"
                        )
                    yield rewritten_batch(batch, rewrite)
        except errors.SparklakeError:
            raise  # Errors of the store derive from OSError, too.
        except (pa.ArrowException, OSError) as error:
            raise _damaged(table, error) from error


def _damaged(table: TableVersion, error: Exception) -> errors.CorruptFileError:
    return errors.CorruptFileError(
        f"a checkpoint in the Delta log of {table.path!r} at {table.ref!r} is not Parquet: {error}"
    )


def _resolver(context: Context, table: TableVersion) -> Resolve:
    """Return a resolver of paths to addresses, distinct even for shared files."""
    files = data_files(table.objects.batches(), table.folder, spark_uris)
    shared = repeated(hashes(batch.column("uri")) for batch in files)
    nowhere = f"{context.info.storage_namespace}/{VIEWS_FOLDER}no-longer-there/{table.folder}"

    def resolve(relative: pa.Array) -> pa.Array:
        paths = pa.array([table.folder + each for each in relative.to_pylist()], pa.string())
        # Old versions refer to removed files. These get an address without an object.
        absent = pa.array([nowhere + each for each in relative.to_pylist()], pa.string())
        addresses = pc.coalesce(table.snapshot.lookup(paths).column("address"), absent)
        return unlike(spark_uris(addresses.combine_chunks()), relative, shared)

    return resolve
