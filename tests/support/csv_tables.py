"""A table format for tests: CSV files, with a manifest of the columns and the valid files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.metadata.formats import MetadataFiles, table_of
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.addresses import spark_uri
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.tables.diff_sides import FolderPair
from sparklake.verbs.tables.edits import TableCopy
from sparklake.verbs.tables.format import Meets, TableFormat
from sparklake.verbs.tables.metadata_folders import MetadataFolder, read_metadata
from sparklake.verbs.tables.unions import ChangedTable, TableUnion, changed_values
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.write_request import TableWrite, WriteMode, WriteRequest
from sparklake.verbs.tables.written import begun, written_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

MANIFEST = "_manifest/files.json"

METADATA = MetadataFiles(
    name="Rows",
    folder="_manifest/",
    pattern=r"^files\.json$",
    changed=rb"(^|/)_manifest/files\.json$",
    samples=("files.json",),
    verbs=__name__,
)


@dataclass(frozen=True)
class Manifest:
    columns: str = ""
    files: tuple[str, ...] = ()

    @staticmethod
    def of(body: bytes | None) -> Manifest:
        document = json.loads(body or b"{}")
        return Manifest(document.get("columns", ""), tuple(document.get("files", ())))

    @property
    def body(self) -> bytes:
        return json.dumps({"columns": self.columns, "files": sorted(self.files)}).encode()


def _info(table: TableVersion) -> ObjectInfo | None:
    path = f"{table.folder}{MANIFEST}"
    return table.snapshot.stat(path) if table.snapshot.exists(path) else None


def _manifest(table: TableVersion) -> Manifest:
    info = _info(table)
    return Manifest() if info is None else Manifest.of(read_body(info, table.ref))


def _read_files(
    context: Context, table: TableVersion, manifest: Manifest, names: Sequence[str]
) -> DataFrame:
    addresses = table.snapshot.lookup([f"{table.folder}{each}" for each in names])["address"]
    reader = context.runners.session().read.schema(manifest.columns)
    return reader.csv([spark_uri(each) for each in addresses.to_pylist()])


def read(context: Context, table: TableVersion, options: Mapping[str, Any]) -> DataFrame:
    manifest = _manifest(table)
    if not manifest.files:
        raise ObjectNotFoundError(f"{table.ref!r} has no rows under {table.path!r}")
    return _read_files(context, table, manifest, manifest.files)


def sides(compared: FolderPair) -> tuple[TableSide, TableSide]:
    tables = compared.tables()
    manifests = [*map(_manifest, tables)]
    result = []
    for at, table in enumerate(tables):
        own = sorted({*manifests[at].files} - {*manifests[1 - at].files})
        view = f"{spark_uri(compared.context.info.storage_namespace)}/diff/{at}-{id(compared)}"
        rows = _read_files(compared.context, table, manifests[at], own or manifests[at].files[:1])
        (rows if own else rows.limit(0)).write.format("delta").save(view)
        paths = tuple(f"{table.folder}{each}" for each in own)
        result.append(TableSide(paths, view=view))
    return result[0], result[1]


def reject(table: Any) -> NoReturn:
    raise InvalidInputError("tables of the format Rows have no stream reads")


@dataclass(frozen=True, slots=True)
class _Copy(TableCopy):
    metadata = "manifest"
    base: Manifest
    info: ObjectInfo | None

    @property
    def sql_name(self) -> str:
        """A table over the folder of new files."""
        name = f"rows_{self.write.id}"
        self.context.runners.session().sql(
            f"CREATE TABLE IF NOT EXISTS {name} ({self.base.columns}) USING csv "
            f"LOCATION '{self.location}'"
        )
        return name

    def save(self, rows: DataFrame) -> None:
        rows.write.mode("append").csv(self.location)
        columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in rows.schema)
        files = () if self.request.mode is WriteMode.OVERWRITE else self.base.files
        object.__setattr__(self, "base", Manifest(columns, files))

    def stage(self) -> TableWrite:
        request = self.request
        with written_files(self.context, request.branch, self.write.place) as written:
            names = [each for each in written["name"].to_pylist() if each.endswith(".csv")]
            manifest = replace(self.base, files=(*self.base.files, *names))
            row = self.put("files.json", manifest.body)
            files = written.filter([each in names for each in written["name"].to_pylist()])
            return self.land(files, lambda table: self._named(table, row))

    def _named(self, table: TableVersion, row: pa.RecordBatch) -> Mapping[str, pa.RecordBatch]:
        if _info(table) != self.info:
            raise self.changed()
        return {MANIFEST: row}


@contextmanager
def copied(context: Context, request: WriteRequest, table: TableVersion) -> Iterator[_Copy]:
    info = _info(table)
    with begun(context, request.branch) as write:
        yield _Copy(context, request, write, info is None, _manifest(table), info)


def unite(
    context: Context, sides: ThreeWayTrees, folder: bytes, resolution: Resolution, meets: Meets
) -> TableUnion | None:
    folders = [read_metadata(context, each, folder) for each in sides.trees]
    if len({tuple(each.ids.items()) for each in folders}) < 3:
        return None
    base, source, dest = map(_in_tree, folders)
    table = ChangedTable(table_of(folder), changed_values(folders), METADATA.name)
    if {*base.files} - {*source.files} and {*base.files} - {*dest.files}:
        winner, conflict = resolution.side(folder), table.refused("both sides removed files")
        return conflict if winner is None else table.taken(winner)
    files = {*source.files} & {*dest.files} | ({*source.files} ^ {*dest.files}) - {*base.files}
    needed = dict.fromkeys(table.folder + each.encode() for each in files)
    return replace(table.united({MANIFEST: replace(dest, files=tuple(files)).body}), needed=needed)


def _in_tree(folder: MetadataFolder) -> Manifest:
    bodies = [folder.body(key) for key in folder.records]
    return Manifest.of(bodies[0] if bodies else None)


FORMAT = TableFormat(
    name="rows",
    find_view=lambda *_: None,
    sides=sides,
    scan=reject,
    new_files=reject,
    find_rows=lambda *_: None,
    stream_options=lambda *_: {},
    copied=copied,
    unite=unite,
    read=read,
)
