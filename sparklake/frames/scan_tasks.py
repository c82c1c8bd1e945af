"""Tasks of a scan, for batches and for streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql.datasource import InputPartition

from sparklake.frames.tables.parquet_scan import SLICE_BYTES, ScanFile


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
