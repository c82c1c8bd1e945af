"""Sources of imports: the engine for a stream of unknown length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, cast

import pyarrow as pa
import pytest

from sparklake.engine.choice import THREAD_RECORDS
from sparklake.verbs.base.context import Context
from sparklake.verbs.imports.sources import open_source

SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64()), ("address", pa.string())])


class Chooser:
    """A context that records for how many records a runner is chosen."""

    def runner(self, records: int, *_: str) -> Any:
        return records


def batches(sizes: Iterator[int] | list[int], read: list[int]) -> Iterator[pa.RecordBatch]:
    for size in sizes:
        read.append(size)
        paths = [f"p/{len(read)}/{row}" for row in range(size)]
        columns = [paths, [1] * size, [f"s3://bucket/{path}" for path in paths]]
        yield pa.record_batch([pa.array(each) for each in columns], schema=SCHEMA)


@pytest.mark.parametrize(
    ("sizes", "records"), [([], 0), ([5, 0, 7], 12), ([15_000, 15_000, 9], THREAD_RECORDS)]
)
def test_the_first_rows_of_a_stream_choose_its_engine(sizes: list[int], records: int) -> None:
    read = list[int]()
    context = cast("Context", Chooser())
    source = open_source(context, pa.RecordBatchReader.from_batches(SCHEMA, batches(sizes, read)))
    assert cast("int", source.runner(context, "main")) == records
    rows = pa.Table.from_batches(source.rows, SCHEMA)
    assert rows.equals(pa.Table.from_batches(batches(sizes, []), SCHEMA))


def test_no_more_than_the_first_rows_of_a_stream_wait() -> None:
    read = list[int]()
    endless = batches((6000 for _ in count()), read)
    open_source(cast("Context", Chooser()), pa.RecordBatchReader.from_batches(SCHEMA, endless))
    assert len(read) == 4
