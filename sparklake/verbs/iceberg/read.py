"""Views of Iceberg tables as Delta tables, for Spark to read them without Iceberg's jar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from sparklake.errors import InvalidInputError, MissingFileError, ObjectNotFoundError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.metadata.delta.actions import encode_actions
from sparklake.metadata.delta.file_names import log_key
from sparklake.metadata.delta.table_files import hashes, repeated, unlike
from sparklake.metadata.delta.vectors import ABSOLUTE, new_vectors
from sparklake.metadata.delta.view_log import TableShape
from sparklake.metadata.iceberg.delta_columns import DeltaColumns
from sparklake.metadata.iceberg.live import LiveFile, vector_bytes
from sparklake.metadata.iceberg.manifests import TableFile
from sparklake.metadata.vectors.bitmaps import positions
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.addresses import spark_uri, spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.iceberg.table_copy import check_paths
from sparklake.verbs.iceberg.tree_table import (
    IcebergTable,
    check_size,
    describing,
    find_metadata,
    open_iceberg,
    parse_table,
    read_checked,
)
from sparklake.verbs.iceberg.write import ICEBERG, session_catalog
from sparklake.verbs.tables.diff_sides import FolderPair
from sparklake.verbs.tables.format import VERSION_AS_OF
from sparklake.verbs.tables.version import TableVersion, open_table
from sparklake.verbs.tables.view import View, view_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SNAPSHOT = "snapshot-id"
_VECTORS = "deletionVectors"
_VERSION = 0


def find_iceberg_view(
    context: Context, table: TableVersion, options: Mapping[str, Any], _schema: object = None
) -> View:
    """Find or write the view of a snapshot: its live files, with columns mapped by field id."""
    iceberg = open_iceberg(table, _version(options))
    if iceberg is None:
        raise _no_table(table)
    view = view_of(context, table, _VERSION, *_terms(iceberg))
    if not view.exists:
        with describing(table):
            _write(view, iceberg, iceberg.live_files())
    return view


def read_by_jar(context: Context, table: TableVersion, options: Mapping[str, Any]) -> DataFrame:
    """Read a snapshot with Iceberg's own reader, from the addresses of its files.

    Raises:
        MissingDependencyError: The session has no jar of Iceberg.
    """
    version = _version(options)
    session_catalog(context)
    info, iceberg = _in_place(table, version)
    reader = context.runners.session().read.format(ICEBERG)
    if version is not None and iceberg.snapshot is not None:
        reader = reader.option(VERSION_AS_OF, str(iceberg.snapshot.snapshot_id))
    return reader.load(spark_uri(info.address, iceberg.metadata.location))


def metadata_address(context: Context, ref: str, path: str) -> str:
    return _in_place(open_table(context, ref, path))[0].address


def _in_place(table: TableVersion, version: str | None = None) -> tuple[ObjectInfo, IcebergTable]:
    """Open a table whose paths are addresses, and its current metadata file."""
    with describing(table):
        info = find_metadata(table)
        if info is None:
            raise _no_table(table)
        iceberg = parse_table(table, info, read_checked(table, info.path), version, maps_names=True)
        check_paths(iceberg, files=True)
    return info, iceberg


def _no_table(table: TableVersion) -> ObjectNotFoundError:
    return ObjectNotFoundError(
        f"{table.ref!r} has no Iceberg table under {table.path!r}: no metadata was found in "
        f"{table.folder + 'metadata/'!r}"
    )


def iceberg_sides(compared: FolderPair) -> tuple[TableSide, TableSide]:
    """Return both sides of a table, and write views of their differing files."""
    tables = [open_iceberg(each) for each in compared.tables()]
    files = [_live_files(each) for each in tables]
    # Iceberg never writes a name twice, but another tool may replace a file.
    overwrites = {each.path for each in compared.changes() if each.type is ChangeType.CHANGED}
    sides = []
    for at, iceberg in enumerate(tables):
        if iceberg is None:
            sides.append(TableSide())
            continue
        others = {each.identity for each in files[1 - at]}
        own = [
            each
            for each in files[at]
            if each.identity not in others or iceberg.path(each.file.path) in overwrites
        ]
        terms = [list(each.table.objects.plan.pieces) for each in tables if each]
        view = view_of(compared.context, iceberg.table, _VERSION, *_terms(iceberg), *terms)
        if not view.exists:
            with describing(iceberg.table):
                _write(view, iceberg, own)
        paths = tuple(iceberg.path(each.file.path) for each in own)
        size = sum(each.file.size for each in own)
        sides.append(TableSide(paths, view=view.uri, bytes=size))
    return sides[0], sides[1]


def reject_scan(table: TableVersion) -> NoReturn:
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_scan import INSTEAD

    raise InvalidInputError(
        f"{table.path!r} at {table.ref!r} is an Iceberg table, which the format lakefs does not "
        f"support. Instead, {INSTEAD}"
    )


def _live_files(table: IcebergTable | None) -> Sequence[LiveFile]:
    if table is None:
        return ()
    with describing(table.table):
        return table.live_files()


def _version(options: Mapping[str, Any]) -> str | None:
    values = {name.lower(): str(value) for name, value in options.items()}
    names = {VERSION_AS_OF.lower(), _SNAPSHOT}
    if values.keys() - names or len(values) > 1:
        raise InvalidInputError(
            f"Iceberg tables are read with at most one of the options {VERSION_AS_OF} (a "
            f"snapshot's id, branch or tag) and {_SNAPSHOT}, not {', '.join(sorted(options))}. "
            "For a time, use a ref or `timestamp`"
        )
    return next(iter(values.values()), None)


def _terms(iceberg: IcebergTable) -> list[Any]:
    number = None if iceberg.snapshot is None else iceberg.snapshot.snapshot_id
    return [ICEBERG, iceberg.name, number, iceberg.version is None]


def _write(view: View, iceberg: IcebergTable, files: Sequence[LiveFile]) -> None:
    columns = DeltaColumns.of(iceberg.schema)
    vectors, bodies = _vectors(iceberg, files)
    # In Spark 3.5, statements that change another Iceberg table cannot read tables with vectors.
    features = [*columns.features, _VECTORS] if any(vectors) else columns.features
    shape = TableShape(view.id, columns.schema, (), features, columns.configuration)
    adds = _adds(iceberg, columns, files, vectors)
    head: list[dict[str, Any]] = [{"protocol": shape.protocol()}, {"metaData": shape.meta_data()}]
    view.put({**bodies, log_key(view.version): encode_actions([*head, *adds])})


def _adds(
    iceberg: IcebergTable,
    columns: DeltaColumns,
    files: Sequence[LiveFile],
    vectors: Sequence[Mapping[str, Any] | None],
) -> Iterator[dict[str, Any]]:
    paths = _paths(iceberg, [each.file for each in files])
    for each, path, vector in zip(files, paths, vectors, strict=True):
        add = {
            "path": path,
            "partitionValues": {},
            "size": each.file.size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": columns.statistics(each.file),
            **({"deletionVector": vector} if vector else {}),
        }
        yield {"add": add}


def _vectors(
    iceberg: IcebergTable, files: Sequence[LiveFile]
) -> tuple[list[Mapping[str, Any] | None], dict[str, bytes]]:
    """Return Delta's vector descriptors, and a file with the converted position deletes.

    A vector of Iceberg has the bytes of one of Delta, so it is referenced.
    """
    nothing = positions()
    own, bodies = new_vectors([nothing if each.rows is None else each.rows for each in files])
    # One Puffin file has the vectors of many data files.
    puffins = {each.vector.path: each.vector for each in files if each.vector is not None}
    places = dict(zip(puffins, _paths(iceberg, [*puffins.values()]), strict=True))
    descriptors = list[Mapping[str, Any] | None]()
    for each, descriptor in zip(files, own, strict=True):
        vector = each.vector
        if vector is not None:
            descriptor = {
                "storageType": ABSOLUTE,
                "pathOrInlineDv": places[vector.path],
                "offset": vector.offset,
                "sizeInBytes": vector_bytes(vector),
                "cardinality": vector.records,
            }
        descriptors.append(descriptor)
    return descriptors, bodies


def _paths(iceberg: IcebergTable, files: Sequence[TableFile]) -> list[str]:
    """Return file addresses for a log, each with a unique spelling."""
    if not files:
        return []
    table = iceberg.table
    rows = table.snapshot.lookup([iceberg.path(each.path) for each in files])
    names, addresses = (rows.column(each).combine_chunks() for each in ("path", "address"))
    for file, path, size in zip(files, names.to_pylist(), rows["size"].to_pylist(), strict=True):
        if size is None:
            raise MissingFileError(f"{table.ref!r} has no object {path!r}: restore it")
        check_size(path, size, file.size)
    places = spark_uris(addresses)
    unique = unlike(places, names, repeated([hashes(places)]))
    return list(unique.to_pylist())
