"""The `lakefs` format for Spark's stream reader: rows added to a table by commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from sparklake.errors import InvalidInputError
from sparklake.frames.stream_errors import quoted_alone
from sparklake.frames.tables.parquet_scan import SLICE_BYTES, Scan, ScanFile, check_types, scan_rows
from sparklake.frames.tables.parquet_views import nullable
from sparklake.uri import object_uri

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FROM_REF, SKIP_CHANGES = "fromRef", "skipChanges"
_COMMIT = "commit"
"""The only field of an offset: the id of a commit, or an empty text before the first one."""

_OWN = {"path", "home"}
_STREAMS_ONLY = "the format lakefs reads streams only:"


@dataclass(frozen=True, slots=True)
class TableVerbs:
    """The verbs of the streams. They run in processes next to the driver."""

    scan: Callable[[Any, str, str], Scan]
    head_id: Callable[[Any, str], str]
    new_files: Callable[..., Sequence[ScanFile]]


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
    """New rows of a table, for `spark.readStream.format("lakefs").load("lakefs://...")`."""

    opener: ClassVar[Callable[..., Any]]
    verbs: ClassVar[TableVerbs]

    @classmethod
    def name(cls) -> str:
        return "lakefs"

    @quoted_alone()
    def schema(self) -> StructType:
        # Spark also asks for the schema of a stream.
        return self._scan(FROM_REF, SKIP_CHANGES).schema

    @quoted_alone()
    def reader(self, schema: StructType) -> DataSourceReader:
        raise InvalidInputError(f"{_STREAMS_ONLY} use lake.read or repo.read")

    @quoted_alone()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's)
        target = self.target(FROM_REF, SKIP_CHANGES)
        skips = self.options.get(SKIP_CHANGES, "false").lower()
        if skips not in ("true", "false"):
            raise InvalidInputError(f"{SKIP_CHANGES} must be true or false, not {skips!r}")
        check_types(schema, "the stream")
        return LakefsStreamReader(target, schema, self.options.get(FROM_REF), skips=skips == "true")

    @quoted_alone()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  (Spark's)
        raise InvalidInputError(
            f"{_STREAMS_ONLY} use "
            'lake.write_stream(rows).start("lakefs://...") or branch.write_stream'
        )

    @quoted_alone()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise InvalidInputError(f"{_STREAMS_ONLY} use lake.write or branch.write")

    def target(self, *names: str) -> TableTarget:
        """Return the table of the options. Options other than `names` are rejected."""
        # Spark passes option names in lower case.
        if more := sorted({*map(str.lower, self.options)} - _OWN - {*map(str.lower, names)}):
            raise InvalidInputError(
                f"the format lakefs has no option {more[0]!r}: choose one of "
                f"{', '.join(sorted({'path', 'home', *names}))}"
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


class ScanTask(InputPartition):
    """The slices for one task."""

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


def _task_rows(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, ScanTask):
        with quoted_alone():
            for file in partition.files:
                yield from scan_rows(file, schema)


class LakefsStreamReader(DataSourceStreamReader):
    """A reader of files added by a branch's commits, with commits as offsets."""

    def __init__(
        self, target: TableTarget, schema: StructType, from_ref: str | None, *, skips: bool
    ) -> None:
        self._target = target
        self._schema = nullable(schema)
        self._from_ref = from_ref
        self._skips = skips

    @quoted_alone()
    def initialOffset(self) -> dict[str, str]:  # noqa: N802  (Spark's name)
        return {_COMMIT: self._head(self._from_ref) if self._from_ref else ""}

    @quoted_alone()
    def latestOffset(self, *_: Any) -> dict[str, str]:  # noqa: N802  (Spark's name)
        # Spark 4.2 passes a start and a limit.
        return {_COMMIT: self._head(self._target.ref)}

    @quoted_alone()
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        with self._target.context() as context:
            files = self._target.verbs.new_files(
                context, self._target.path, start[_COMMIT], end[_COMMIT], skips=self._skips
            )
        return [ScanTask(each) for each in packed(files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _task_rows(partition, self._schema)

    def _head(self, ref: str) -> str:
        with self._target.context() as context:
            return self._target.verbs.head_id(context, ref)
