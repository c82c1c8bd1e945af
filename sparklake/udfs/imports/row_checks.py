"""Checks of imported rows: valid rows become records, invalid rows become defects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidInputError, InvalidKeyError, InvalidRowsError, MissingFileError
from sparklake.graveler.arrow_batches import with_column
from sparklake.graveler.buffers import Mask, mask_of
from sparklake.graveler.defaults import IMPORTED_CONTENT_TYPE
from sparklake.graveler.keys import object_key
from sparklake.graveler.records import MAX_KEY_BYTES, Record
from sparklake.graveler.times import MICROSECOND, OUT_OF_YEARS, is_storable
from sparklake.interrupts import Threads
from sparklake.metadata.delta.file_names import LOG_FOLDER, STAGED_COMMITS
from sparklake.namespace.addresses import OwnNamespace
from sparklake.rows.imports import Defect, ImportTaskSettings, Reason
from sparklake.rows.objects import microsecond_mtimes
from sparklake.rows.records import in_key_order, record_batch
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import normalise_object_uri
from sparklake.stores.objects.addresses import are_local, local_paths
from sparklake.stores.objects.key_checks import check_key
from sparklake.stores.objects.local.columns import file_checksums
from sparklake.strategies.path_globs import is_excluded
from sparklake.udfs.imports.defects import defect_record, new_defect
from sparklake.udfs.imports.table_protocols import TableProtocols
from sparklake.udfs.staged_rows import (
    object_checksum,
    plain_records,
    plain_rows,
    plain_uris,
    staged_columns,
    staged_record,
)
from sparklake.udfs.tasks import Batches, BatchStream

Read = Callable[[Batches], Batches]
"""Turns the input of a task into rows of IMPORT_SCHEMA."""

Spoiled = dict[int, dict[str, str]]
"""The escaped strings that are not UTF-8, by row and column."""

_TEXTS = ("path", "address", "checksum", "content_type", "metadata")
_UNKNOWN = "-"


def import_body(
    workspace: Workspace, settings: ImportTaskSettings, read: Read, batches: Batches
) -> BatchStream:
    """Read a part of a source, and yield RECORD_SCHEMA including defects."""
    own = OwnNamespace(workspace.storage_namespace)
    # Hashing releases the interpreter lock, so the threads of a task use all its cores.
    with Threads(name="sparklake-hash") as threads:
        rows_of = _RowEncoder(workspace, settings, own, threads)
        for rows in read(batches):
            if settings.exclude:
                rows = _without(rows, settings.exclude)
            if rows.num_rows:
                yield rows_of.records(rows)


@dataclass(frozen=True, slots=True)
class _RowEncoder:
    """An encoder of rows: plain rows column-wise, other rows one by one."""

    workspace: Workspace
    settings: ImportTaskSettings
    own: OwnNamespace
    threads: Executor
    protocols: TableProtocols = field(default_factory=TableProtocols)

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records and the defects, in key order if the rows are."""
        rows, spoiled = _readable(microsecond_mtimes(staged_columns(batch)))
        missing = _lacks_checksum(rows)
        plain, checksums = self._plain(_marked(rows, missing), missing)
        plain[list(spoiled)] = False
        if (plain & missing).any():
            rows = self._with_checksums(rows, plain & missing, checksums)
            # A missing object has no checksum. The check of its single row reports the reason.
            plain &= ~_lacks_checksum(rows)
        if plain.all():
            return self._encoded(rows)
        parts = [record_batch(list(self._one_by_one(rows, np.flatnonzero(~plain), spoiled)))]
        if plain.any():
            parts.append(self._encoded(rows.filter(pa.array(plain))))
        return in_key_order(parts)

    def _plain(self, rows: pa.RecordBatch, missing: Mask) -> tuple[Mask, pa.StringArray]:
        """Return a mask of plain rows, and missing checksums from small files."""
        plain = plain_rows(rows, self.workspace.storage_namespace)
        if not plain.any():
            return plain, pa.nulls(rows.num_rows, pa.string())
        address = rows.column("address")
        most = MAX_KEY_BYTES - len(self.settings.folder.encode())
        fits = pc.less_equal(pc.binary_length(rows.column("path")), most)
        staged = pc.match_substring(rows.column("path"), STAGED_COMMITS)
        plain &= plain_uris(address) & mask_of(fits) & ~mask_of(staged)
        self._exclude_unsupported(rows, plain)
        checksums = _file_checksums(rows, plain & missing)
        is_read = mask_of(checksums.is_valid())  # So it is no link.
        return plain & ~self.own.mask(address, is_read), checksums

    def _exclude_unsupported(self, rows: pa.RecordBatch, plain: Mask) -> None:
        """Remove the metadata files of unsupported tables from a mask."""
        paths, addresses = rows.column("path"), rows.column("address")
        metadata = pc.or_(
            pc.match_substring(paths, LOG_FOLDER), pc.ends_with(paths, ".metadata.json")
        )
        for place in np.flatnonzero(plain & mask_of(metadata)).tolist():
            path, address = paths[place].as_py(), addresses[place].as_py()
            plain[place] = not self.protocols.problem(path, address)

    def _encoded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.settings.folder:
            paths = pc.binary_join_element_wise(self.settings.folder, rows.column("path"), "")
            rows = with_column(rows, "path", paths)
        return plain_records(rows, self.settings.imported_at, IMPORTED_CONTENT_TYPE)

    def _with_checksums(
        self, rows: pa.RecordBatch, missing: Mask, checksums: pa.StringArray
    ) -> pa.RecordBatch:
        values = checksums.filter(pa.array(missing))
        unknown = pc.is_null(values)
        others = rows.column("address").filter(pa.array(missing)).filter(unknown).to_pylist()
        read = pa.array(list(self.threads.map(self._find_checksum, others)), pa.string())
        values = pc.replace_with_mask(values, unknown, read)
        index = rows.schema.get_field_index("checksum")
        column = pa.nulls(rows.num_rows, pa.string()) if index < 0 else rows.column(index)
        column = pc.replace_with_mask(column, pa.array(missing), values)
        return with_column(rows, "checksum", column)

    def _find_checksum(self, address: str) -> str | None:
        try:
            return object_checksum(self.workspace, address)
        except (MissingFileError, InvalidKeyError):
            return None

    # --- one row at a time ------------------------------------------------------------------------

    def _one_by_one(self, rows: pa.RecordBatch, places: Any, spoiled: Spoiled) -> Iterator[Record]:
        others = rows.take(pa.array(places)).to_pylist()
        for place, row in zip(places.tolist(), others, strict=True):
            result = self._checked(row, spoiled.get(place, {}))
            yield result if isinstance(result, tuple) else defect_record(result)

    def _checked(self, row: dict[str, Any], unreadable: dict[str, str]) -> Record | Defect:
        texts = {**row, **unreadable}
        path, address, size = (texts.get(name) for name in ("path", "address", "size"))
        whole = None if path is None else self.settings.folder + path
        try:
            error = _unreadable(unreadable) or self._wrong(path, size, address) or _odd(row)
            if error is None:
                row = {**row, "path": whole}
                now = self.settings.imported_at
                return staged_record(row, self.workspace, now, IMPORTED_CONTENT_TYPE)
            reason, message = error
        except MissingFileError as caught:
            reason, message = Reason.MISSING_OBJECT, str(caught)
        except InvalidRowsError as caught:
            reason, message = Reason.TOO_LARGE, str(caught)
        except InvalidInputError as caught:
            reason, message = Reason.INVALID_ADDRESS, str(caught)
        return new_defect(whole, address, size, reason, message)

    def _wrong(self, path: str | None, size: int | None, address: str | None) -> _Wrong:
        if path is None:
            return Reason.MISSING_PATH, "the row has no path"
        if (problem := _wrong_path(path, self.settings.folder)) is not None:
            return Reason.INVALID_PATH, problem
        if STAGED_COMMITS in path:
            return Reason.CATALOG_MANAGED, _CATALOG
        if size is None:
            return Reason.MISSING_SIZE, "the row has no size"
        if size < 0:
            return Reason.INVALID_SIZE, f"the size is {size}: use a number of bytes, 0 or more"
        if address is None:
            return Reason.MISSING_ADDRESS, "the row has no address"
        if (problem := _wrong_address(address)) is not None:
            return Reason.INVALID_ADDRESS, problem
        if self.own.has(normalise_object_uri(address)):
            return Reason.OWN_NAMESPACE, _OWN
        if problem := self.protocols.problem(path, address):
            return Reason.UNSUPPORTED_TABLE, problem
        return None


_UNREADABLE = {"path": Reason.INVALID_PATH, "address": Reason.INVALID_ADDRESS}


_Wrong = tuple[Reason, str] | None
_OWN = (
    "the address is in the repository's own storage namespace, which cannot be imported: use "
    "`sparklake cp` to copy an object of a ref to another path"
)
_CATALOG = (
    "a catalog orders the commits of this Delta table (catalogManaged), and its log may lack the "
    "newest: in the catalog, copy it to a path with DEEP CLONE or CTAS, or drop the feature, and "
    "import that. Skip such files only after the feature was dropped"
)


def _unreadable(texts: dict[str, str]) -> _Wrong:
    for name in texts:
        return _UNREADABLE.get(name, Reason.INVALID_TEXT), f"the {name} is not UTF-8; rename it"
    return None


def _odd(row: dict[str, Any]) -> _Wrong:
    """Return the error in the optional fields, or None."""
    if not is_storable((row.get("mtime") or 0) * MICROSECOND):
        return Reason.INVALID_MTIME, f"the mtime is {OUT_OF_YEARS}"
    if any(value is None for _, value in row.get("metadata") or ()):
        return Reason.INVALID_TEXT, "the metadata has a key without a value"
    return None


def _wrong_path(path: str, folder: str) -> str | None:
    try:
        object_key(path)
        object_key(folder + path)
    except InvalidKeyError as error:
        return str(error)
    return None


def _wrong_address(address: str) -> str | None:
    if "://" not in address:
        return "the address is not a URI: write s3://bucket/key or file:///path"
    try:
        check_key(normalise_object_uri(address).split("/", 3)[3])
    except InvalidInputError as error:
        return str(error)
    return None


def _without(rows: pa.RecordBatch, exclude: tuple[str, ...]) -> pa.RecordBatch:
    """Return the rows without those of excluded paths."""
    paths = rows.column("path").cast(pa.binary()).to_pylist()
    stays = [
        each is None or not is_excluded(exclude, each.decode(errors="surrogateescape"))
        for each in paths
    ]
    return rows.filter(pa.array(stays, pa.bool_()))


# --- columns --------------------------------------------------------------------------------------


def _readable(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Spoiled]:
    """Replace strings that are not UTF-8 with null; return the rows and these strings."""
    spoiled: Spoiled = {}
    for name in _TEXTS:
        index = rows.schema.get_field_index(name)
        if index < 0:
            continue
        column = rows.column(index)
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            mask = np.array([not _is_text(each) for each in column], bool)
            for place in np.flatnonzero(mask).tolist():
                spoiled.setdefault(place, {})[name] = _as_text(column[place])
            valid = pa.array(np.arange(rows.num_rows), mask=mask)
            rows = with_column(rows, name, column.take(valid))
    return rows, spoiled


def _as_text(value: pa.Scalar) -> str:
    if not pa.types.is_string(value.type):
        return ""
    body: bytes = value.as_buffer().to_pybytes()
    return body.decode(errors="backslashreplace")


def _is_text(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True


def _file_checksums(rows: pa.RecordBatch, missing: Mask) -> pa.StringArray:
    """Return the checksums of small files in masked rows; null elsewhere."""
    address, nothing = rows.column("address"), pa.nulls(rows.num_rows, pa.string())
    local = pc.and_(pa.array(missing), are_local(address)).fill_null(False)
    paths = local_paths(address.filter(local))
    if not len(paths):
        return nothing
    sizes = rows.column("size").filter(local).to_numpy(zero_copy_only=False)
    return pc.replace_with_mask(nothing, local, file_checksums(paths, sizes))


def _lacks_checksum(rows: pa.RecordBatch) -> Mask:
    if "checksum" not in rows.schema.names:
        return np.ones(rows.num_rows, bool)
    lengths = pc.binary_length(rows.column("checksum").cast(pa.string())).fill_null(0)
    return mask_of(pc.equal(lengths, 0))


def _marked(rows: pa.RecordBatch, missing: Mask) -> pa.RecordBatch:
    """Fill in missing checksums so that the other checks can run."""
    if not missing.any():
        return rows
    if "checksum" not in rows.schema.names:
        column = pa.array([_UNKNOWN] * rows.num_rows, pa.string())
    else:
        column = pc.if_else(pa.array(missing), _UNKNOWN, rows.column("checksum").cast(pa.string()))
    return with_column(rows, "checksum", column)
