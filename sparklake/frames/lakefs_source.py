"""The format `lakefs` of Spark's own readers and writer: tables at refs, without lake.read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from sparklake._scratch import scratch_folder
from sparklake.delta_log.table_files import partition_folder
from sparklake.errors import InvalidInputError, LostResultError, MissingFileError
from sparklake.frames.tables.parquet_scan import (
    SLICE_BYTES,
    Predicate,
    Scan,
    ScanFile,
    arrow_schema,
    check_types,
    checked,
    partition_values,
    predicates,
    scan_rows,
)
from sparklake.frames.tables.parquet_views import nullable
from sparklake.graveler.ports import ObjectStore
from sparklake.rows.objects import FILE_SCHEMA
from sparklake.stores.objects import open_store
from sparklake.uri import object_uri

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FROM_REF, SKIP_CHANGES = "fromRef", "skipChanges"
_COMMIT = "commit"
"""The only field of an offset: the id of a commit, or an empty text before the first one."""

_MAX_OPEN_FILES = 500
_OWN = {"path", "home", "partitionby"}


@dataclass(frozen=True, slots=True)
class TableVerbs:
    """The verbs of the sources. They run in processes next to the driver."""

    scan: Callable[[Any, str, str], Scan]
    begin_write: Callable[..., StartedWrite]
    stage_write: Callable[[Any, StartedWrite, pa.Table], object]
    abandon_write: Callable[[Any, str], object]
    head_id: Callable[[Any, str], str]
    new_files: Callable[..., Sequence[ScanFile]]


@dataclass(frozen=True, slots=True)
class StartedWrite:
    """A registered write of Parquet files to a place. `request` is for the verbs only."""

    id: str
    uri: str
    partition_by: tuple[str, ...]
    request: Any


@dataclass(frozen=True, slots=True)
class TableTarget:
    """A table at a ref of a lake, from the options of a source. It is sent to other processes."""

    opener: Callable[..., Any]
    verbs: TableVerbs
    repository: str
    ref: str
    path: str
    home: str | None = None

    @contextmanager
    def context(self) -> Iterator[Any]:
        """Open the lake in this process, and yield the context of the repository."""
        home = {"home": self.home} if self.home else {}
        with self.opener(**home) as lake:
            yield lake.repository(self.repository)._context


class LakefsSource(DataSource):
    """Tables at refs: `spark.read.format("lakefs").load("lakefs://REPOSITORY/REF/PATH")`."""

    opener: ClassVar[Callable[..., Any]]
    verbs: ClassVar[TableVerbs]
    pushes_filters: ClassVar[bool] = False

    @classmethod
    def name(cls) -> str:
        return "lakefs"

    def schema(self) -> StructType:
        # Spark also asks for the schema of a stream.
        return self._scan(FROM_REF, SKIP_CHANGES).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        scan = self._scan()
        schema = checked(replace(scan, schema=nullable(schema)), "the given schema").schema
        return (_FilteringReader if self.pushes_filters else LakefsReader)(scan, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's)
        target = self.target(FROM_REF, SKIP_CHANGES)
        skips = self.options.get(SKIP_CHANGES, "false").lower()
        if skips not in ("true", "false"):
            raise InvalidInputError(f"{SKIP_CHANGES} must be true or false, not {skips!r}")
        check_types(schema, "the stream")
        return LakefsStreamReader(target, schema, self.options.get(FROM_REF), skips=skips == "true")

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  (Spark's)
        raise InvalidInputError(
            "the format lakefs does not write streams, because Spark does not tell it which query "
            'writes: use lake.write_stream(rows).start("lakefs://...") or branch.write_stream'
        )

    def writer(self, schema: StructType, overwrite: bool) -> LakefsWriter:
        target = self.target()
        columns = self.options.get("partitionBy", "").split(",")
        partition_by = tuple(filter(None, map(str.strip, columns)))
        check_types(schema, "the DataFrame")
        with target.context() as context:
            write = self.verbs.begin_write(
                context, target.ref, target.path, schema, partition_by, overwrite=overwrite
            )
        return LakefsWriter(target, write, schema)

    def target(self, *names: str) -> TableTarget:
        """Return the table of the options. Options other than `names` are rejected."""
        # Spark passes option names in lower case.
        if more := sorted({*map(str.lower, self.options)} - _OWN - {*map(str.lower, names)}):
            raise InvalidInputError(
                f"the format lakefs has no option {more[0]!r}: use lake.read or lake.write, which "
                "support all options of Spark"
            )
        if "path" not in self.options:
            raise InvalidInputError(
                'the format lakefs needs a path: load("lakefs://REPOSITORY/REF/PATH")'
            )
        uri, own = object_uri(self.options["path"]), type(self)
        return TableTarget(
            opener=own.opener,
            verbs=own.verbs,
            repository=uri.repository,
            ref=uri.ref,
            path=uri.key,
            home=self.options.get("home"),
        )

    def _scan(self, *names: str) -> Scan:
        target = self.target(*names)
        with target.context() as context:
            return self.verbs.scan(context, target.ref, target.path)


# --- reads ----------------------------------------------------------------------------------------


class LakefsReader(DataSourceReader):
    def __init__(self, scan: Scan, schema: StructType) -> None:
        self._files = scan.files
        self._folders = [each for each in scan.schema.fields if each.name in scan.partition_columns]
        self._schema = schema
        self._filters: list[Predicate] = []

    def __getstate__(self) -> dict[str, Any]:
        # Executors get one task each.
        return {**self.__dict__, "_files": []}

    def partitions(self) -> list[InputPartition]:
        return [ScanTask(files) for files in packed(self._selected())] or [ScanTask([])]

    def _selected(self) -> Iterator[ScanFile]:
        names = {each.name for each in self._folders}
        folder_filters = [each for each in self._filters if each.column in names]
        for file in self._files:
            values = partition_values(file, self._schema) if folder_filters else {}
            if all(each.allows(values.get(each.column)) for each in folder_filters):
                yield file

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _task_rows(partition, self._schema, self._filters)


class _FilteringReader(LakefsReader):
    """A reader for sessions with spark.sql.python.filterPushdown.enabled: others reject it."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  (Spark's name)
        self._filters = [*predicates(filters, self._schema)]
        # Spark applies all of them again: here they skip files and row groups.
        return filters


class ScanTask(InputPartition):
    """The slices that one task reads."""

    def __init__(self, files: Sequence[ScanFile]) -> None:
        super().__init__(None)
        self.files = files


def packed(files: Iterable[ScanFile]) -> Iterator[list[ScanFile]]:
    """Pack slices into tasks of about SLICE_BYTES."""
    task, size = list[ScanFile](), 0
    for each in (part for file in files for part in file.slices()):
        if task and size + each.stop - each.start > SLICE_BYTES:
            yield task
            task, size = [], 0
        task.append(each)
        size += each.stop - each.start
    if task:
        yield task


def _task_rows(
    partition: InputPartition, schema: StructType, filters: Sequence[Predicate]
) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, ScanTask):
        for file in partition.files:
            yield from scan_rows(file, schema, filters)


class LakefsStreamReader(DataSourceStreamReader):
    """Reads the files that the commits of a branch add, between two commits as offsets."""

    def __init__(
        self, target: TableTarget, schema: StructType, from_ref: str | None, *, skips: bool
    ) -> None:
        self._target = target
        self._schema = nullable(schema)
        self._from_ref = from_ref
        self._skips = skips

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  (Spark's name)
        return {_COMMIT: self._head(self._from_ref) if self._from_ref else ""}

    def latestOffset(self, *_: Any) -> dict[str, str]:  # noqa: N802  (Spark's name)
        # Spark 4.2 passes a start and a limit.
        return {_COMMIT: self._head(self._target.ref)}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        with self._target.context() as context:
            files = self._target.verbs.new_files(
                context, self._target.path, start[_COMMIT], end[_COMMIT], skips=self._skips
            )
        return [ScanTask(each) for each in packed(files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _task_rows(partition, self._schema, ())

    def _head(self, ref: str) -> str:
        with self._target.context() as context:
            return self._target.verbs.head_id(context, ref)


# --- writes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """The files of a task, as rows of FILE_SCHEMA."""

    rows: list[dict[str, Any]] = field(default_factory=list)


class LakefsWriter(DataSourceArrowWriter):
    """Writes Parquet files in tasks; the driver stages them all with one call."""

    def __init__(self, target: TableTarget, write: StartedWrite, schema: StructType) -> None:
        self._target = target
        self._write = write
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        return write_files(self._write, self._schema, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        files = files_of(messages)
        with self._target.context() as context:
            self._target.verbs.stage_write(context, self._write, files)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with self._target.context() as context:
            self._target.verbs.abandon_write(context, self._write.id)


def files_of(messages: Sequence[WriterCommitMessage | None]) -> pa.Table:
    """Return the files of all tasks as FILE_SCHEMA. A missing message is an error."""
    files = [each for each in messages if isinstance(each, WrittenFiles)]
    if len(files) < len(messages):
        raise LostResultError(
            f"nothing was staged: {len(messages) - len(files)} tasks reported no files. Write again"
        )
    return pa.Table.from_pylist([row for each in files for row in each.rows], FILE_SCHEMA)


def write_files(
    write: StartedWrite, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> WrittenFiles:
    """Write the rows of a task to Parquet files in the place of a write.

    A repeated task writes files of other names, and only those of the successful one are staged.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    number = task.partitionId() if task is not None else 0
    with scratch_folder() as scratch:
        parts = _PartFiles(scratch, write.partition_by, schema, f"part-{number:05}-{uuid.uuid4()}")
        for batch in batches:
            parts.add(batch)
        if number == 0 and not write.partition_by:
            parts.file("")  # As Spark: a table without rows has its columns.
        names = parts.close()
        store = open_store(write.uri)
        store.put_files_if_absent({each: scratch / each for each in names})
        return WrittenFiles([_row(store, each) for each in names])


def _row(store: ObjectStore, name: str) -> dict[str, Any]:
    stored = store.find(name)
    if stored is None:
        raise MissingFileError(f"{store.uri}/{name} is missing after its upload: write again")
    return {
        "name": name,
        "size": stored.size,
        "checksum": stored.checksum or store.checksum(name),
        "mtime": stored.mtime // 1000,
    }


class _PartFiles:
    """The open Parquet files of a task, one for each partition."""

    def __init__(
        self, folder: Path, partition_by: Sequence[str], schema: StructType, name: str
    ) -> None:
        import pyspark
        from pyspark.sql.types import StructType

        self._folder = folder
        self._partition_by = partition_by
        self._name = f"{name}.snappy.parquet"
        stored = StructType([each for each in schema.fields if each.name not in partition_by])
        labels = {
            "org.apache.spark.version": pyspark.__version__,
            "org.apache.spark.sql.parquet.row.metadata": stored.json(),
        }
        self._arrow = arrow_schema(stored).with_metadata(labels)
        self._files: dict[str, pq.ParquetWriter] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        for folder, rows in self._split(batch):
            columns = [rows.column(each.name).cast(each.type) for each in self._arrow]
            self.file(folder).write_batch(pa.record_batch(columns, schema=self._arrow))

    def file(self, folder: str) -> pq.ParquetWriter:
        if folder not in self._files:
            if len(self._files) >= _MAX_OPEN_FILES:
                raise InvalidInputError(
                    f"a task has rows of more than {_MAX_OPEN_FILES} partitions: repartition the "
                    f"DataFrame by {', '.join(self._partition_by)} first"
                )
            path = self._folder / folder / self._name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[folder] = pq.ParquetWriter(path, self._arrow, store_schema=False)
        return self._files[folder]

    def close(self) -> list[str]:
        """Complete the files, and return their names."""
        for each in self._files.values():
            each.close()
        return [f"{folder}{self._name}" for folder in self._files]

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows of each partition, with its folder."""
        if not self._partition_by:
            yield "", batch
            return
        columns = [batch.column(name) for name in self._partition_by]
        values = pa.table(columns, names=[*self._partition_by])
        for row in values.group_by(values.column_names).aggregate([]).to_pylist():
            same = [_equal(column, row[name]) for name, column in zip(row, columns, strict=True)]
            yield partition_folder(row.items()), batch.filter(reduce(pc.and_, same))


def _equal(column: pa.Array, value: Any) -> pa.Array:
    return column.is_null() if value is None else pc.equal(column, pa.scalar(value, column.type))
