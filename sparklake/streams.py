"""A writer of streams in Spark's shape, for paths such as `lakefs://lake/main/tables/events`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from sparklake.dataframes import WriterChain, checks_schema, is_lake_path
from sparklake.errors import InvalidInputError
from sparklake.uri import object_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sparklake.repository import Repository

_CHECKPOINT, _EVERY = "checkpointlocation", "commitevery"


class LakeStreamWriter(WriterChain):
    """Write a stream to a table on a branch, as Spark's DataStreamWriter writes to paths.

    Each micro-batch is committed, exactly once. Paths that do not start with `lakefs://` go to
    Spark's own writer, with the same options. Without a format, an existing table keeps its own,
    and a new one is Parquet. Options are those of Spark's writer, `checkpointLocation`,
    `commitEvery` and `schemaCheck`.
    """

    def __init__(self, repository: Callable[[str], Repository], rows: DataFrame) -> None:
        super().__init__()
        self._repository = repository
        self._rows = rows
        self._mode = "append"
        self._name: str | None = None
        self._trigger: dict[str, Any] = {}

    def outputMode(self, outputMode: str) -> Self:  # noqa: N802, N803  (Spark's own words)
        """Set the output mode: append, or complete."""
        self._mode = outputMode
        return self

    def queryName(self, queryName: str) -> Self:  # noqa: N802, N803  (Spark's own words)
        """Set the name of the query."""
        self._name = queryName
        return self

    def trigger(self, **trigger: Any) -> Self:
        """Set Spark's trigger, such as `availableNow=True`."""
        self._trigger = trigger
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        outputMode: str | None = None,  # noqa: N803  (Spark's own word)
        partitionBy: str | Sequence[str] | None = None,  # noqa: N803  (Spark's own word)
        queryName: str | None = None,  # noqa: N803  (Spark's own word)
        **options: Any,
    ) -> StreamingQuery:
        """Start the query. Raises InvalidInputError without a `checkpointLocation` in a lake."""
        self.options(**options)
        self._format, self._name = format or self._format, queryName or self._name
        self._mode = outputMode or self._mode
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        path = self._path(path)
        if path is not None and is_lake_path(path):
            return self._start(path)
        return self._own_errors(self._plain().start(path))

    def toTable(self, tableName: str, **options: Any) -> StreamingQuery:  # noqa: N802, N803
        """Start a query into a path in a lake, or into a table in Spark's catalog."""
        if is_lake_path(tableName):
            return self.start(tableName, **options)
        return self._own_errors(self.options(**options)._plain().toTable(tableName))

    @staticmethod
    def _own_errors(query: StreamingQuery) -> StreamingQuery:
        # Lazy import: it loads Spark.
        from sparklake.frames.stream_errors import raising_own_errors

        return raising_own_errors(query)

    def _plain(self) -> DataStreamWriter:
        writer = self._rows.writeStream.outputMode(self._mode).options(**self._options)
        writer = writer.format(self._format) if self._format else writer
        writer = self._with_layouts(writer)
        writer = writer.queryName(self._name) if self._name else writer
        return writer.trigger(**self._trigger) if self._trigger else writer

    def _start(self, path: str) -> StreamingQuery:
        own, options = self._split_options(_CHECKPOINT, _EVERY, "schemacheck")
        if _CHECKPOINT not in own:
            raise InvalidInputError(
                f"a stream to {path!r} needs the option checkpointLocation: a folder outside of "
                "the lake, which survives restarts"
            )
        self._check_layouts(path)
        uri = object_uri(path)
        return (
            self._repository(uri.repository)
            .branch(uri.ref)
            .write_stream(
                self._rows,
                uri.key,
                checkpoint=own[_CHECKPOINT],
                format=self._format,
                output_mode=self._mode,
                partition_by=self._partition_by,
                trigger=self._trigger,
                every=int(own.get(_EVERY, 1)),
                query_name=self._name,
                schema_check=checks_schema(own),
                **options,
            )
        )
