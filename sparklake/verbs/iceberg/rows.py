"""Row merges in Iceberg tables: partial tables to read, and one MERGE by Iceberg itself."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake.errors import InvalidInputError
from sparklake.graveler.entries import Entry
from sparklake.layout import DATA_FOLDER
from sparklake.metadata.formats import table_of
from sparklake.metadata.iceberg.documents import Document, encode_document
from sparklake.metadata.iceberg.edits import editable
from sparklake.metadata.iceberg.entries import FileKey
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, Location
from sparklake.metadata.iceberg.union.rows import DataFiles, RowFiles, RowTables
from sparklake.metadata.iceberg.union.snapshots import Table
from sparklake.metadata.union.conflicts import refusing
from sparklake.metadata.union.file_sets import DEST, SIDES, side_names
from sparklake.namespace.addresses import new_data_key
from sparklake.stores.objects.addresses import spark_uri
from sparklake.strategies.row_strategy import Rows, key_in
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.iceberg.read import read_by_jar
from sparklake.verbs.iceberg.side_tables import SideTable, union_signature, unmergeable
from sparklake.verbs.iceberg.table_copy import copied_document, put_document
from sparklake.verbs.iceberg.write import session_catalog
from sparklake.verbs.tables.row_merges import MergedRows, merge_into
from sparklake.verbs.tables.spark_writer import check_native
from sparklake.verbs.tables.unions import United
from sparklake.verbs.tables.version import tree_table
from sparklake.verbs.tables.written import file_entries, named_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from sparklake.frames.tables.row_merge import RowSides

_DEST = -1


@dataclass(frozen=True, slots=True)
class RowSnapshot:
    """A version of dest's metadata with the merged rows.

    `files` are its metadata files by name, in the folder `place`, and `objects` the new data and
    delete files. `removed` are the files that dest no longer has.
    """

    files: Mapping[str, bytes]
    place: str
    objects: Mapping[str, Entry]
    removed: frozenset[FileKey]


@dataclass(frozen=True)
class IcebergRows:
    """The rows that changed since base in an Iceberg table, as far as files show.

    `tables` are those of merge bases, source and dest. `has_union`: see `ChangedRows`.
    """

    context: Context
    trees: ThreeWayTrees
    rows: Rows
    tables: Sequence[SideTable]
    has_union: bool = False

    @property
    def folder(self) -> str:
        return table_of(self.tables[_DEST].metadata.folder).decode()

    @property
    def identity(self) -> Hashable:
        return self.folder, *((each.info.path, each.info.address) for each in self.tables)

    @property
    def _location(self) -> str:
        location: str = self.tables[_DEST].document["location"]
        return location

    @cached_property
    def _files(self) -> RowFiles:
        return RowFiles.of([each.table for each in self.tables])

    @cached_property
    def _sides(self) -> RowTables:
        return RowTables.of([each.table for each in self.tables])

    @property
    def files(self) -> int:
        return sum(map(len, self._files.sets.values()))

    @property
    def bytes(self) -> int:
        sets = self._files.sets.values()
        return sum(each.file.size for files in sets for each in files.values())

    @property
    def key(self) -> Sequence[str]:
        return key_in(self._sides.settings.get("properties"))

    def sides(self) -> tuple[RowSides, StructType]:
        return self._frames

    @cached_property
    @refusing()
    @unmergeable()
    def _frames(self) -> tuple[RowSides, StructType]:
        from sparklake.frames.tables.column_names import name_rule
        from sparklake.frames.tables.row_merge import merged_schema

        # Reports a missing jar.
        session_catalog(self.context, self._location)
        place, names = new_data_key(), side_names(len(self.tables) - 2)
        frames = {
            holders: self._frame(
                place, "-".join(holders).replace(" ", ""), names.index(holders[0]), files
            )
            for holders, files in self._files.sets.items()
        }
        rule = name_rule(self.context.runners.session())
        return frames, merged_schema(rule, *(frames[each,].schema for each in SIDES))

    def dest_rows(self) -> DataFrame:
        tree, name = self.context.trees.get(self.trees.dest), DEST
        return read_by_jar(self.context, tree_table(self.context, tree, name, self.folder), {})

    def _frame(self, place: str, name: str, at: int, files: DataFiles) -> DataFrame:
        document, uri = self._put(place, name, at, files)
        path = f"{METADATA_FOLDER}{name}.metadata.json"
        self.context.store.put_if_absent(
            f"{place}/{path}", encode_document(editable(document, uri))
        )
        return self.context.runners.session().read.format("iceberg").load(f"{uri}/{path}")

    def _put(self, place: str, name: str, at: int, files: DataFiles) -> tuple[Document, str]:
        """Put the manifests of a partial table; return its metadata and location."""
        uri = spark_uri(f"{self.context.info.storage_namespace}/{place}", self._location)
        document, bodies = self._sides.partial(
            at, files.values(), lambda each: f"{uri}/{each}", name
        )
        self.tables[at].check_addresses([*files, *self._sides.deletes(at)])
        self.context.store.put_many_if_absent(
            {f"{place}/{each}": body for each, body in bodies.items()}
        )
        return document, uri

    @refusing()
    @unmergeable()
    def write(self, merged: MergedRows) -> RowSnapshot:
        """Merge changed rows with Iceberg into a private table of the files that may change."""
        dest = self.tables[_DEST]
        place, copy = new_data_key(), new_data_key()
        document, uri = self._put(copy, "base", _DEST, self._files.editable)
        changed = self._merged(document, copy, uri, merged) if merged.counts.changes else document
        folder = Location(uri)

        def read(path: str) -> bytes:
            name = folder.find_relative(path)
            return dest.read(path) if name is None else self.context.store.get(f"{copy}/{name}")

        before, after = (Table(each, read) for each in (document, changed))
        snapshot = self._sides.continued(before, after, union_signature(dest, place))
        names = sorted({folder.relative(key.path) for key in snapshot.added})
        title = f"rows of {self.folder.rstrip('/')}"
        column = pa.array(names, pa.string())
        with named_files(self.context, title, copy, column, "Iceberg") as files:
            objects = dict(file_entries(copy, files))
        return RowSnapshot(snapshot.files, place, objects, snapshot.removed)

    def _merged(self, document: Document, copy: str, uri: str, merged: MergedRows) -> Document:
        check_native(self.context)
        put_document(self.context, copy, document, uri)
        catalog = session_catalog(self.context, self._location)
        name = f"{catalog}.`{copy.removeprefix(DATA_FOLDER)}`"
        spark = self.context.runners.session()
        before = spark.table(name).count()
        # Spark 4.1 cannot plan a MERGE from a view over tables that were loaded by path.
        merge_into(name, merged.merge.changes().localCheckpoint(), merged.merge.key)
        merged.counts.check(before, spark.table(name).count())
        changed = copied_document(self.context, copy, is_new=False)
        current = "current-snapshot-id"
        if changed is None or changed[current] == document[current]:
            raise InvalidInputError(
                "Iceberg made no current snapshot of the merged rows. Sessions with spark.wap.id "
                "or spark.wap.branch only stage them: unset it"
            )
        return changed

    def joined(self, union: United, result: RowSnapshot) -> United:
        dest = self.tables[_DEST]
        live = {key.path for key in self._files.touched - result.removed}
        union = replace(union, files=result.files, place=result.place, objects=result.objects)
        return union.keeping(self.context, self.trees.dest, map(dest.key, live))
