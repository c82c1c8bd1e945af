"""The format `lakefs` as a stream source: new files of each new commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from sparklake.frames.scan_tasks import ScanTask, packed
from sparklake.frames.tables.parquet_scan import scan_rows
from sparklake.frames.tables.parquet_views import nullable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from sparklake.frames.lakefs_source import TableTarget

FROM_REF, SKIP_CHANGES = "fromRef", "skipChanges"
_COMMIT = "commit"
"""The only field of an offset: the id of a commit, or an empty text before the first one."""


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
        if isinstance(partition, ScanTask):
            for file in partition.files:
                yield from scan_rows(file, self._schema, ())

    def _head(self, ref: str) -> str:
        with self._target.context() as context:
            return self._target.verbs.head_id(context, ref)
