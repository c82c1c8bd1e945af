"""The runner of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklake.engine.threads import LocalRunner
from tests.support.runner_contract import RunnerContract


class TestLocalRunner(RunnerContract):
    @pytest.fixture
    def runner(self) -> LocalRunner:
        return LocalRunner()


def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        yield batch


WORK = pa.table({"position": [0, 1, 2]})


def test_a_body_gets_every_row_of_work() -> None:
    runner = LocalRunner()
    batches = list(runner.collect(doubled, WORK))
    assert [batch.to_pydict() for batch in batches] == [{"position": [0, 1, 2]}] * 2
    assert list(runner.stream(doubled, WORK)) == batches


def test_a_stream_runs_lazily() -> None:
    started = []

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        started.append(True)
        yield from batches

    stream = LocalRunner().stream(body, WORK)
    assert started == []
    next(stream)
    assert started == [True]
