"""How each kind of table is created and changed: by pyarrow, in edits by Spark, or in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from campaigns.iceberg.branch_tables import at as open_iceberg
from campaigns.tables.arrow_files import change_format, put_files
from campaigns.tables.choices import ROWS, Layout, Step
from campaigns.tables.operations import (
    DELTA,
    ICEBERG,
    OWN_COLUMNS,
    PARQUET,
    PART,
    PYICEBERG,
    AddCheck,
    AddColumn,
    Change,
    ChangeFormat,
    DropColumn,
    Insert,
    Operation,
    Overwrite,
    RenameColumn,
    Restore,
    SetProperty,
    Table,
    Target,
    Widen,
)
from campaigns.tables.readers import PATH, files_of, last_version, metadata_of
from sparklake import Branch, Lake, Repository
from sparklake.errors import NoChangesError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OVERWRITES = "spark.sql.sources.partitionOverwriteMode"
_ALTERS: frozenset[type[Operation]] = frozenset({AddColumn, SetProperty})


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table: format, properties and supported operations."""

    format: str
    operations: frozenset[type[Operation]]
    properties: Mapping[str, str] = field(default_factory=dict)
    formats: tuple[str, ...] = (PARQUET,)
    """What a migration leads to."""
    has_unique_ids: bool = False
    """Whether every history keeps ids unique, because rows are replaced by id."""
    is_python: bool = False
    """Whether no round needs Spark. Such kinds have no merges by key."""


def _delta(*operations: type[Operation], **features: str) -> Kind:
    properties = {f"delta.{name}": value for name, value in features.items()}
    every: set[type[Operation]] = {*ROWS, *_ALTERS, AddCheck, Restore, ChangeFormat, *operations}
    return Kind(DELTA, frozenset(every), properties)


def _iceberg(version: int, mode: str) -> Kind:
    modes = {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
    every: set[type[Operation]] = {
        *ROWS,
        *_ALTERS,
        Restore,
        Widen,
        RenameColumn,
        DropColumn,
        ChangeFormat,
    }
    properties = {"format-version": str(version), **modes, "write.distribution-mode": "none"}
    return Kind(ICEBERG, frozenset(every), properties, (PARQUET, DELTA))


def _python(
    table_format: str, *operations: type[Operation], to: str = "", **properties: str
) -> Kind:
    every: set[type[Operation]] = {*ROWS, AddColumn, *operations}
    if to:
        every.add(ChangeFormat)
    is_by_id = table_format == PYICEBERG
    return Kind(table_format, frozenset(every), properties, (to,), is_by_id, is_python=True)


_PYICEBERG = (SetProperty, Widen, RenameColumn, DropColumn)
_MAPPING = {"columnMapping.mode": "name", "enableTypeWidening": "true"}
KINDS = {
    "parquet": Kind(
        PARQUET, frozenset({*ROWS, AddColumn, Widen, Restore, ChangeFormat}), {}, (DELTA,)
    ),
    "delta plain": _delta(),
    "delta change feed": _delta(enableChangeDataFeed="true"),
    "delta vectors": _delta(Widen, enableDeletionVectors="true", enableTypeWidening="true"),
    "delta row tracking": _delta(enableRowTracking="true", enableDeletionVectors="true"),
    "delta mapped": _delta(Widen, RenameColumn, DropColumn, **_MAPPING),
    "parquet by pyarrow": _python(PARQUET, Widen, Restore, to=DELTA),
    "delta by deltalake": _python(DELTA, SetProperty, AddCheck, Restore, to=PARQUET),
    "iceberg 1 by pyiceberg": _python(PYICEBERG, *_PYICEBERG, **{"format-version": "1"}),
    "iceberg 2 by pyiceberg": _python(PYICEBERG, *_PYICEBERG, **{"format-version": "2"}),
    "iceberg copy-on-write": _iceberg(2, "copy-on-write"),
    "iceberg merge-on-read": _iceberg(2, "merge-on-read"),
    "iceberg vectors": _iceberg(3, "merge-on-read"),
}
SPARK_4_1 = tuple(each for each in KINDS if KINDS[each].format == ICEBERG)
"""The kinds that need the environment of `make test-iceberg`."""


def _parts(layout: Layout | Target) -> list[str]:
    return [PART] if layout.is_partitioned else []


class Port(Protocol):
    """Creates and changes a table on branches. Nothing is committed."""

    def create(self, branch: Branch, change: Change, layout: Layout) -> None: ...

    def run(self, branch: Branch, step: Step, layout: Layout, base: str) -> None:
        """Run the changes of a step. `base` is the commit that a restore goes back to."""
        ...


# --- folders of Parquet files ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParquetPort:
    """Files with Spark's names. Spark writes some of the appends and overwrites, if it is given."""

    repo: Repository
    lake: Lake
    spark: SparkSession | None = None

    def create(self, branch: Branch, change: Change, layout: Layout) -> None:
        self.run(branch, [change], layout, "")

    def run(self, branch: Branch, step: Step, layout: Layout, base: str) -> None:
        for each in step:
            self._run(branch, each, layout, base)
            number, after = each.operation.number, each.after
            if layout.compacts(number) and not after.format:
                random = layout.random("compact", number, branch.name)
                self._replace(branch, Change(each.operation, after, after), layout, random)

    def _run(self, branch: Branch, change: Change, layout: Layout, base: str) -> None:
        operation, after = change.operation, change.after
        random = layout.random("files", operation.number, branch.name)
        if isinstance(operation, ChangeFormat):
            change_format(branch, after, layout)
        elif isinstance(operation, Restore):
            with suppress(NoChangesError):
                branch.restore(base, paths=[f"{PATH}/"])
        elif isinstance(operation, Insert):
            target = layout.target(change.before, PARQUET, operation.number)
            if self.spark is not None and random.random() < 0.1 and change.before.rows:
                self._by_spark(branch, operation, target, random)
            else:
                rows = [*after.rows.items()][len(change.before.rows) :]
                put_files(branch, replace(after, rows=dict(rows)), target, random)
        elif not isinstance(operation, AddColumn):
            self._replace(branch, change, layout, random)

    def _by_spark(self, branch: Branch, operation: Insert, target: Target, random: Random) -> None:
        assert self.spark is not None
        if random.random() < 0.5 and not any(
            each not in OWN_COLUMNS for each in target.table.columns
        ):
            run_sql(self.lake, branch, operation, target)
            return
        rows = self.spark.sql(target.query(operation.rows))
        branch.write(rows, PATH, PARQUET, "append", _parts(target), mergeSchema=True)

    def _replace(self, branch: Branch, change: Change, layout: Layout, random: Random) -> None:
        """Overwrite the table, or the partitions with other rows, as a job does."""
        before, after = change.before, change.after
        whole = not layout.is_partitioned or before.is_wide != after.is_wide
        parts = {row[PART] for table in (before, after) for row in table.rows.values()}
        if not whole and before is not after:
            parts = {each for each in parts if _part(before, each) != _part(after, each)}
        folders = {f"{PART}={each}" for each in parts}
        for path in [*files_of(self.repo, branch.name)]:
            if whole or path.partition("/")[0] in folders:
                branch.delete(f"{PATH}/{path}")
        rows = {at: row for at, row in after.rows.items() if whole or row[PART] in parts}
        target = Target(after, PARQUET, layout.is_partitioned, random.choice((1, 1, 3)))
        put_files(branch, replace(after, rows=rows), target, random)


def _part(table: Table, part: object) -> set[int]:
    return {at for at, row in table.rows.items() if row[PART] == part}


# --- tables that Spark changes --------------------------------------------------------------------


@contextmanager
def overwrites(spark: SparkSession, operation: Operation, target: Target) -> Iterator[None]:
    """Set dynamic overwrites for a partition overwrite."""
    is_dynamic = isinstance(operation, Overwrite) and operation.is_dynamic(target)
    spark.conf.set(_OVERWRITES, "dynamic" if is_dynamic else "static")
    try:
        yield
    finally:
        spark.conf.unset(_OVERWRITES)


def run_sql(lake: Lake, branch: Branch, operation: Operation, target: Target) -> None:
    """Run an operation as statements of the lake."""
    name = f"lakefs.{branch._context.info.name}.`{branch.name}`.`{PATH}`"
    for statement in operation.sql(target):
        lake.sql(statement.replace("{table}", name)).collect()


@dataclass(frozen=True, slots=True)
class SparkPort:
    """A Delta or Iceberg table: by edits, DataFrame writes, and SQL."""

    repo: Repository
    lake: Lake
    spark: SparkSession
    kind: Kind

    def create(self, branch: Branch, change: Change, layout: Layout) -> None:
        operation, target = self._aimed(change, layout)
        assert isinstance(operation, Insert)
        rows = self.spark.sql(replace(target, is_upper=False).query(operation.rows))
        options: dict[str, Any] = dict(self.kind.properties)
        branch.write(rows, PATH, self.kind.format, partition_by=_parts(layout), **options)

    def _aimed(self, change: Change, layout: Layout) -> tuple[Operation, Target]:
        number = change.operation.number
        return change.operation, layout.target(change.before, self.kind.format, number)

    def run(self, branch: Branch, step: Step, layout: Layout, base: str) -> None:
        if step[-1].after.format:
            self._run(branch, step[:-1], layout, base)
            change_format(branch, step[-1].after, layout)
        else:
            self._run(branch, step, layout, base)

    def _run(self, branch: Branch, step: Step, layout: Layout, base: str) -> None:
        aimed = [self._aimed(each, layout) for each in step]
        if not aimed:
            return
        random = layout.random("port", step[0].operation.number)
        in_sql = random.random() < 0.3 and not any(isinstance(each, Restore) for each, _ in aimed)
        compacts = [layout.compacts(each.number) for each, _ in aimed]
        is_alone = len(step) == 1 and not compacts[0] and random.random() < 0.4
        if is_alone and self._by_dataframe(branch, *aimed[0]):
            return
        if in_sql and not any(compacts):
            for operation, target in aimed:
                with overwrites(self.spark, operation, target):
                    run_sql(self.lake, branch, operation, target)
            return
        with self._edit(branch, aimed) as names:
            for (operation, target), compact in zip(aimed, compacts, strict=True):
                self._execute(operation, target, names, base)
                if compact:
                    self._sql(self._compaction(), names)

    def _by_dataframe(self, branch: Branch, operation: Operation, target: Target) -> bool:
        """Write rows by a DataFrame, if the operation is such a write."""
        if not isinstance(operation, (Insert, Overwrite)):
            return False
        mode = "append"
        options: dict[str, Any] = {}
        if isinstance(operation, Overwrite):
            mode = "overwrite-partitions" if operation.is_dynamic(target) else "overwrite"
            if operation.where is not None and mode == "overwrite":
                if target.format != DELTA:
                    return False
                options = {"replaceWhere": operation.where.sql()}
        # Delta compares the case of partition columns.
        rows = self.spark.sql(replace(target, is_upper=False).query(operation.rows))
        branch.write(rows, PATH, target.format, mode, _parts(target), **options)
        return True

    @contextmanager
    def _edit(
        self, branch: Branch, aimed: Sequence[tuple[Operation, Target]]
    ) -> Iterator[dict[str, str]]:
        """Yield the names of the table for statements."""
        if self.kind.format == DELTA:
            history = any(isinstance(each, Restore) for each, _ in aimed)
            with branch.edit_delta(PATH, history=history) as place:
                yield {"{table}": f"delta.`{place}`"}
        else:
            with branch.edit_iceberg(PATH) as name:
                yield {"{table}": str(name), "{catalog}": name.catalog}

    def _execute(
        self, operation: Operation, target: Target, names: dict[str, str], base: str
    ) -> None:
        if isinstance(operation, Restore):
            names = {**names, "{version}": self._version(base)}
            if operation.is_clone and target.format == DELTA:
                names["{clone}"] = f"delta.`{self.repo.view(base, PATH)}`"
        with overwrites(self.spark, operation, target):
            for statement in operation.sql(target):
                self._sql(statement, names)

    def _sql(self, statement: str, names: Mapping[str, str]) -> None:
        for name, text in names.items():
            statement = statement.replace(name, text)
        self.spark.sql(statement).collect()

    def _version(self, ref: str) -> str:
        files = files_of(self.repo, ref)
        if self.kind.format == DELTA:
            return str(last_version(files))
        snapshot = open_iceberg(f"file://{metadata_of(files)}").current_snapshot()
        return str(snapshot and snapshot.snapshot_id)

    def _compaction(self) -> str:
        if self.kind.format == DELTA:
            return "OPTIMIZE {table}"
        options = "options => map('rewrite-all', 'true')"
        return f"CALL {{catalog}}.system.rewrite_data_files(table => '{{table}}', {options})"


def open_port(
    kind: Kind, repo: Repository, lake: Lake, spark: SparkSession | None, folder: Path
) -> Port:
    """Return the port for a kind of table. pyiceberg writes into the folder."""
    if kind.format == PARQUET:
        return ParquetPort(repo, lake, spark)
    if kind.is_python:
        # Lazy import: the environment of a Spark kind may lack the writers.
        from campaigns.tables.python_ports import DeltaLakePort, PyIcebergPort

        if kind.format == DELTA:
            return DeltaLakePort(repo)
        version = int(kind.properties["format-version"])
        return PyIcebergPort(repo, folder, version, is_numbered=version == 1)
    assert spark is not None
    return SparkPort(repo, lake, spark, kind)
