"""Tables written by deltalake and pyiceberg, without Spark."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType
from deltalake.schema import StructType as DeltaStruct
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from campaigns.iceberg.branch_tables import BranchTable
from campaigns.tables.arrow_files import arrow_table, change_format
from campaigns.tables.choices import Layout, Step
from campaigns.tables.operations import (
    ID,
    NUMBER,
    PART,
    AddCheck,
    AddColumn,
    Change,
    Delete,
    DropColumn,
    Insert,
    Overwrite,
    RenameColumn,
    Restore,
    SetProperty,
    Table,
    Update,
    Upsert,
    Widen,
)
from campaigns.tables.readers import PATH, export_table, files_of, last_version
from sparklake import Branch, Repository

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table as IcebergTable

_MEMORY = "/dev/shm"


@dataclass(frozen=True, slots=True)
class DeltaLakePort:
    """deltalake changes a copy of the table; the new files are put on the branch."""

    repo: Repository

    def create(self, branch: Branch, change: Change, layout: Layout) -> None:
        self.run(branch, [change], layout, "")

    def run(self, branch: Branch, step: Step, layout: Layout, base: str) -> None:
        with tempfile.TemporaryDirectory(dir=_MEMORY) as name:
            folder = export_table(self.repo, branch.name, Path(name))
            before = {*folder.rglob("*")}
            for each in step:
                if each.after.format:
                    break
                self._run(str(folder), each, layout, base)
            new = [each for each in folder.rglob("*") if each.is_file() and each not in before]
            bodies = {f"{PATH}/{each.relative_to(folder)}": each.read_bytes() for each in new}
            if step[-1].after.format:
                change_format(branch, step[-1].after, layout)
            elif bodies:
                branch.put_many(bodies)

    def _run(self, place: str, change: Change, layout: Layout, base: str) -> None:
        operation, table = change.operation, change.before
        if isinstance(operation, Insert):
            files = layout.target(table, "", operation.number).files
            parts = [PART] if layout.is_partitioned else None
            rows = [*_added(change).rows.items()]
            for at in range(min(files, 3, len(rows))):
                share = replace(table, rows=dict(rows[at :: min(files, 3)]))
                write_deltalake(place, arrow_table(share), mode="append", partition_by=parts)
        else:
            self._change(DeltaTable(place), change, base)
        if layout.compacts(operation.number):
            DeltaTable(place).optimize.compact()

    def _change(self, delta: DeltaTable, change: Change, base: str) -> None:
        operation = change.operation
        if isinstance(operation, Delete):
            delta.delete(operation.where.sql())
        elif isinstance(operation, Update):
            values: dict[str, Any] = dict(operation.values)
            delta.update(predicate=operation.where.sql(), new_values=values)
        elif isinstance(operation, Upsert):
            self._upsert(delta, operation, change.before)
        elif isinstance(operation, Overwrite):
            predicate = operation.where.sql() if operation.where else None
            rows = arrow_table(_added(change))
            write_deltalake(delta, rows, mode="overwrite", predicate=predicate)
        elif isinstance(operation, Restore):
            version = last_version(files_of(self.repo, base))
            if version < delta.version():
                delta.restore(version)
        elif isinstance(operation, AddColumn):
            outer, _, inner = operation.name.partition(".")
            text = PrimitiveType("string")
            kind = DeltaStruct([Field(inner, text)]) if inner else text
            delta.alter.add_columns([Field(outer, kind)])
        elif isinstance(operation, SetProperty):
            delta.alter.set_table_properties({operation.name: str(operation.number)}, False)
        elif isinstance(operation, AddCheck):
            delta.alter.add_constraint({f"no_{operation.id}": f"{ID} <> {operation.id}"})

    @staticmethod
    def _upsert(delta: DeltaTable, operation: Upsert, table: Table) -> None:
        rows = arrow_table(replace(table, rows=dict(enumerate(operation.rows))))
        merger = delta.merge(rows, f"t.{ID} = s.{ID}", source_alias="s", target_alias="t")
        if operation.deletes:
            merger = merger.when_matched_delete()
        else:
            merger = merger.when_matched_update({"v": "s.v", NUMBER: f"s.{NUMBER}"})
        merger.when_not_matched_insert_all().execute()


def _added(change: Change) -> Table:
    old = change.before.rows
    new = {at: row for at, row in change.after.rows.items() if at not in old}
    return replace(change.after, rows=new)


_SCHEMA = Schema(
    NestedField(1, ID, LongType()),
    NestedField(2, PART, IntegerType()),
    NestedField(3, "v", LongType()),
    NestedField(4, NUMBER, IntegerType()),
    NestedField(5, "s", StringType()),
    NestedField(6, "n", StructType(NestedField(7, "a", LongType()))),
)
_BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), PART))


@dataclass(slots=True)
class PyIcebergPort:
    """An Iceberg table; an operation updates rows in one or two snapshots."""

    repo: Repository
    folder: Path
    version: int
    is_numbered: bool
    table: BranchTable = field(init=False)

    def create(self, branch: Branch, change: Change, layout: Layout) -> None:
        self.table = BranchTable(
            self.repo,
            self.folder,
            _SCHEMA,
            _BY_PART if layout.is_partitioned else UNPARTITIONED_PARTITION_SPEC,
            version=self.version,
            is_numbered=self.is_numbered,
        )
        self.run(branch, [change], layout, "")

    def run(self, branch: Branch, step: Step, layout: Layout, base: str) -> None:
        def run_all(table: IcebergTable) -> None:
            for each in step:
                self._run(table, each, layout)

        self.table.stage(branch, run_all)

    def _run(self, table: IcebergTable, change: Change, layout: Layout) -> None:
        operation, rows = change.operation, _added(change)
        if isinstance(operation, Insert):
            files = min(3, layout.target(rows, "", operation.number).files)
            items = [*rows.rows.items()]
            for at in range(min(files, len(items))):
                table.append(self._arrow(table, replace(rows, rows=dict(items[at::files]))))
        elif isinstance(operation, AddColumn):
            with table.update_schema() as update:
                update.add_column(tuple(operation.name.split(".")), StringType())
        elif isinstance(operation, RenameColumn):
            with table.update_schema() as update:
                old, new = (
                    each.columns[operation.column] for each in (change.before, change.after)
                )
                update.rename_column(old, new)
        elif isinstance(operation, DropColumn):
            with table.update_schema() as update:
                update.delete_column(change.before.columns[operation.column])
        elif isinstance(operation, Widen):
            with table.update_schema() as update:
                update.update_column(NUMBER, LongType())
        elif isinstance(operation, SetProperty):
            with table.transaction() as transaction:
                transaction.set_properties({operation.name: str(operation.number)})
        else:
            self._replace(table, change)

    def _replace(self, table: IcebergTable, change: Change) -> None:
        """Replace rows by their ids, or all of them."""
        before, after = change.before.rows, change.after.rows
        removed: set[Any] = {row[ID] for at, row in before.items() if at not in after}
        is_whole = isinstance(change.operation, Overwrite) and change.operation.where is None
        ids = f"{ID} in ({', '.join(map(str, removed))})"
        where = AlwaysTrue() if is_whole else ids
        rows = _added(change)
        if rows.rows and (removed or is_whole):
            table.overwrite(self._arrow(table, rows), overwrite_filter=where)
        elif rows.rows:
            table.append(self._arrow(table, rows))
        elif removed:
            table.delete(where)

    @staticmethod
    def _arrow(table: IcebergTable, rows: Table) -> pa.Table:
        return arrow_table(rows).cast(table.schema().as_arrow())
