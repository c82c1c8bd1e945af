"""Views of Delta tables at a ref."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparklake import errors
from sparklake._scratch import scratch_folder
from sparklake.layout import VIEWS_FOLDER
from sparklake.metadata.delta.file_names import (
    LOG_FOLDER,
    LogFiles,
    commit_name,
    log_key,
    log_listing,
)
from sparklake.metadata.delta.rewrite import Resolve, to_addresses
from sparklake.metadata.delta.table_files import data_files, hashes, repeated, unlike
from sparklake.metadata.delta.view_log import checkpointed_commit
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.addresses import spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.delta.checkpoint_files import files_to_read, log_files
from sparklake.verbs.delta.table_copy import placed_files
from sparklake.verbs.tables.format import VERSION_AS_OF
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.view import View, view_of

_TIMESTAMP_AS_OF = "timestampAsOf"


def find_delta_view(
    context: Context, table: TableVersion, options: Mapping[str, Any], _schema: object = None
) -> View:
    """Find or write the view: the log for one version, with addresses as paths."""
    log = dict(log_files(table))
    listing = log_listing((name, name) for name in log)
    if not listing.versions:
        raise errors.ObjectNotFoundError(
            f"{table.ref!r} has no Delta table under {table.path!r}: no log was found in "
            f"{table.folder + LOG_FOLDER!r}"
        )
    version = _version(options, max(listing.versions), table)
    files = files_to_read(log, table.ref, version)
    if files.missing is not None:
        raise errors.MissingFileError(
            f"the Delta log of {table.path!r} at {table.ref!r} has no "
            f"{log_key(files.missing)!r}, which its version {version} needs: restore the file, "
            "or read a version after a later checkpoint"
        )
    view = view_of(context, table, version, "delta")
    if not view.exists:
        _write(context, view, table, log, files)
    # A view is one version.
    own = {name: each for name, each in options.items() if name.lower() != VERSION_AS_OF.lower()}
    return replace(view, options=own)


def _version(options: Mapping[str, Any], latest: int, table: TableVersion) -> int:
    values = {name.lower(): value for name, value in options.items()}
    if _TIMESTAMP_AS_OF.lower() in values:
        raise errors.InvalidInputError(
            f"{_TIMESTAMP_AS_OF} is not supported, because it uses file times, and a "
            f"version of {table.path!r} may have newer copies: use a ref, `timestamp`, or "
            f"{VERSION_AS_OF}"
        )
    text = str(values.get(VERSION_AS_OF.lower(), latest))
    if not re.fullmatch("[0-9]+", text) or int(text) > latest:
        raise errors.InvalidInputError(
            f"{table.path!r} has no version {text} at {table.ref!r}: the latest is {latest}"
        )
    return int(text)


def _write(
    context: Context,
    view: View,
    table: TableVersion,
    log: Mapping[str, ObjectInfo],
    files: LogFiles,
) -> None:
    rewrite = to_addresses(_resolver(context, table))
    with scratch_folder() as scratch:
        try:
            placed = dict(placed_files(table, log, files, scratch, rewrite))
        except errors.CorruptFileError as error:
            raise errors.CorruptFileError(
                f"a file in the Delta log of {table.path!r} at {table.ref!r} is damaged: {error}"
            ) from error
        placed.setdefault(commit_name(files.version), checkpointed_commit())
        view.put({f"{LOG_FOLDER}{name}": each for name, each in placed.items()})


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
