"""Plans of scans and streaming reads of Delta tables, from the log alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparklake.errors import InvalidInputError, MissingFileError
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.metadata.delta.actions import Action, Fields, FileKey, decode_actions, fields_of
from sparklake.metadata.delta.checkpoints import adds_in, checkpoint_parts, fields_in
from sparklake.metadata.delta.features import check_ordered_by_log
from sparklake.metadata.delta.file_names import commit_name, commit_version, log_key
from sparklake.metadata.delta.paths import canonical_path, encoded_path, name_of
from sparklake.metadata.delta.rewrite import relative_places
from sparklake.metadata.delta.union.liveness import live_after
from sparklake.metadata.delta.vectors import vector_place
from sparklake.verbs.base.content import read_body
from sparklake.verbs.delta.checkpoint_files import files_to_read, log_files
from sparklake.verbs.delta.table_copy import entry_bodies, log_body
from sparklake.verbs.tables.stream_reads import TableChange
from sparklake.verbs.tables.version import TableVersion

if TYPE_CHECKING:
    from sparklake.frames.tables.parquet_scan import Scan, ScanFile

_READABLE = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""The reader features that a scan supports. Column mapping is supported if it is off."""

_MAPPING, _MODE = "columnMapping", "delta.columnMapping.mode"
_READER_OF_FEATURES = 3


def scan_delta(table: TableVersion) -> Scan:
    # Lazy import: it loads Spark.
    from pyspark.sql.types import StructType

    from sparklake.frames.tables import parquet_scan as scans
    from sparklake.frames.tables.parquet_views import nullable

    what = f"the Delta table {table.path!r} at {table.ref!r}"
    protocol, metadata, adds = _read_log(table)
    check_readable(protocol, metadata, what, scans.INSTEAD)
    files = scan_files(table, adds)
    schema = nullable(StructType.fromJson(json.loads(metadata["schemaString"])))
    return scans.checked(scans.Scan(schema, metadata.get("partitionColumns") or [], files), what)


def scan_files(table: TableVersion, adds: Sequence[dict[str, Any]]) -> list[ScanFile]:
    """Return the files of `add` actions, whose paths become addresses."""
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_scan import ScanFile

    names, files = [fields["path"] for fields in adds], []
    _place(table, adds)
    for name, fields in zip(names, adds, strict=True):
        vector = fields.get("deletionVector")
        place = vector_place(vector) if vector else None
        file = ScanFile(
            path=name_of(name),
            address=canonical_path(fields["path"]),
            size=fields["size"],
            partition=fields.get("partitionValues") or {},
            vector=vector,
            vector_address=place.path if place else "",
        )
        files.append(file)
    return files


def _read_log(table: TableVersion) -> tuple[Fields, Fields, list[dict[str, Any]]]:
    """Return the protocol, the metadata and the live files of the latest table version."""
    log = dict(log_files(table))
    files = files_to_read(log, table.ref)
    if files.missing is not None:
        raise MissingFileError(
            f"the Delta log of {table.path!r} at {table.ref!r} has no "
            f"{log_key(files.missing)!r}, which its version {files.version} needs: restore the file"
        )
    state: dict[str, Fields] = {}
    before: dict[FileKey, Fields] = {}
    kinds = ("protocol", "metaData")
    read = partial(log_body, table, log)
    for part in checkpoint_parts(files.checkpoint, read, *kinds, "add", "sidecar"):
        for kind in kinds:
            state.update((kind, fields) for fields in fields_in(part, kind))
        before.update((FileKey.of(fields), fields) for fields in adds_in(part, None))

    def commits() -> Iterator[Sequence[Action]]:
        for name, body in entry_bodies(log, files.commits, table.ref):
            actions = decode_actions(body, name)
            for kind in kinds:
                state.update((kind, fields) for fields in fields_of(actions, kind))
            yield actions

    live = live_after(commits(), before)
    return state["protocol"], state["metaData"], [dict(fields) for fields in live.values()]


def check_readable(protocol: Fields, metadata: Fields, what: str, instead: str) -> None:
    check_ordered_by_log(protocol, what)
    version = protocol.get("minReaderVersion", 1)
    mode = (metadata.get("configuration") or {}).get(_MODE, "none")
    features = {*(protocol.get("readerFeatures") or ())} - _READABLE
    features -= {_MAPPING} if mode == "none" else set()
    features |= {_MAPPING} if mode != "none" else set()
    features |= {f"reader version {version}"} if version > _READER_OF_FEATURES else set()
    if features:
        raise InvalidInputError(
            f"{what} has features that the format lakefs does not support: "
            f"{', '.join(sorted(features))}. Instead, {instead}"
        )


def _place(table: TableVersion, adds: Iterable[dict[str, Any]]) -> None:
    """Replace the relative paths of data files and vectors with addresses."""
    places = [place for fields in adds for place in relative_places(fields)]
    paths = [table.folder + each.name for each in places]
    addresses = table.snapshot.lookup(paths)["address"].to_pylist() if paths else []
    for path, place, address in zip(paths, places, addresses, strict=True):
        if address is None:
            raise MissingFileError(
                f"{table.ref!r} has no object {path!r}, which the log of its table references: "
                "restore it"
            )
        place.replace(encoded_path(address))


# --- streaming reads ------------------------------------------------------------------------------


def new_files(change: TableChange) -> Iterator[ScanFile]:
    """Yield the files that new table versions add, except rewrites of existing rows.

    A table version with changes or removals of rows raises TableChangedError, or is left out.
    """
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_scan import INSTEAD

    table, log = change.after, dict(log_files(change.after))
    for version in _new_versions(change):
        name = commit_name(version)
        actions = decode_actions(read_body(log[name], table.ref), name)
        for fields in fields_of(actions, "protocol"):
            check_readable(fields, {}, change.what, INSTEAD)
        for fields in fields_of(actions, "metaData"):
            check_readable({}, fields, change.what, INSTEAD)
        if any(fields.get("dataChange", True) for fields in fields_of(actions, "remove")):
            change.reject(f"changes or removes rows in its version {version}")
            continue
        adds = fields_of(actions, "add")
        yield from scan_files(table, [dict(each) for each in adds if each.get("dataChange", True)])


def _new_versions(change: TableChange) -> list[int]:
    """Return the versions that a commit appends to the log, if it keeps all others."""
    before, present = _versions(change.before), _versions(change.after)
    last = max(before, default=-1)
    new = sorted(each for each in present if each > last)
    altered = [name for kind, name in change.log if kind is ChangeType.CHANGED]
    is_rewritten = any(commit_version(name) is not None for name in altered)
    is_shorter = max(present, default=-1) < last
    if is_rewritten or is_shorter or new != list(range(last + 1, last + 1 + len(new))):
        change.reject("replaces versions of its Delta log")
        return []
    return new


def _versions(table: TableVersion) -> set[int]:
    versions = (commit_version(name) for name, _ in log_files(table))
    return {each for each in versions if each is not None}
