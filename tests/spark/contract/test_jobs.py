"""The jobs of the Spark runner: several for a lot of work, named, and ended by an interrupt."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sparklake.engine.spark import SparkRunner
from tests.support.runner_contract import seen_by
from tests.support.task_bodies import work_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def positions_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for position in batch.column("position").to_pylist():
            yield pa.record_batch([pa.array([[position]])], names=["seen"])


def properties_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what Spark calls the job, as its UI does."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for _ in batches:
        name = context.getLocalProperty("spark.job.description")
        yield pa.record_batch([pa.array([name])], names=["name"])


def waiting_body(mark: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield positions, and whether the mark is there; the last one waits for it."""
    for batch in batches:
        for position in batch.column("position").to_pylist():
            end = time.monotonic() + 60
            while position == 15 and not mark.exists() and time.monotonic() < end:
                time.sleep(0.02)
            yield pa.record_batch([pa.array([[position, int(mark.exists())]])], names=["seen"])


def long_body(marks: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave its process id and take a minute for the last row, but for which it is quick."""
    for batch in batches:
        (position,) = batch.column("position").to_pylist()
        if position == 15:
            (marks / str(os.getpid())).touch()
            time.sleep(60)
            (marks / "ended").touch()
        yield pa.record_batch([pa.array([[position]])], names=["seen"])


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 50
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def check_ended_early(marks: Path) -> None:
    (mark,) = marks.iterdir()
    wait_until(lambda: not Path("/proc", mark.name).exists())
    assert [each.name for each in marks.iterdir()] == [mark.name]


def test_a_lot_of_work_is_several_jobs_whose_results_come_as_they_end(
    runner: SparkRunner, tmp_path: Path
) -> None:
    mark = tmp_path / "the first results have come"
    batches = runner.collect(partial(waiting_body, mark), work_of(16))
    first = next(batches)
    mark.touch()
    seen = seen_by([first, *batches])
    assert [position for position, _ in seen] == list(range(16))
    assert {marked for _, marked in seen[:8]} == {0}
    assert seen[15] == [15, 1], "it ended after the first job's results had come"


@pytest.mark.connect
@pytest.mark.parametrize("way", ["collect", "stream"])
def test_an_interrupt_ends_the_tasks(runner: SparkRunner, way: str, tmp_path: Path) -> None:
    def interrupt() -> None:
        wait_until(lambda: any(tmp_path.iterdir()))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    run = getattr(runner, way)
    with pytest.raises(KeyboardInterrupt):
        list(run(partial(long_body, tmp_path), work_of(16)))
    thread.join()
    check_ended_early(tmp_path)
    assert len(seen_by(run(positions_body, work_of(2)))) == 2


def test_results_that_nobody_wants_any_more_are_not_computed(
    runner: SparkRunner, tmp_path: Path
) -> None:
    batches = runner.collect(partial(long_body, tmp_path), work_of(16))
    next(batches)
    wait_until(lambda: any(tmp_path.iterdir()))
    batches.close()  # type: ignore[attr-defined]
    check_ended_early(tmp_path)


@pytest.mark.system
@pytest.mark.connect
def test_the_jobs_of_a_verb_are_called_what_they_are_for(spark: SparkSession) -> None:
    name = "spark.job.description"

    def shown() -> set[str | None]:
        batches = SparkRunner(spark, "sparklake merge lake: a -> b").collect(
            properties_body, work_of(16)
        )
        return {each for batch in batches for each in batch.column("name").to_pylist()}

    assert shown() == {"sparklake merge lake: a -> b"}
    assert spark.conf.get(name, None) is None
    spark.conf.set(name, "the user's own")
    try:
        assert shown() == {"sparklake merge lake: a -> b"}
        stream = SparkRunner(spark, "a listing").stream(properties_body, work_of(2))
        assert next(stream).column("name").to_pylist() == ["a listing"]
        assert shown() == {"sparklake merge lake: a -> b"}, "the latest one counts"
        stream.close()
        assert spark.conf.get(name) == "the user's own"
    finally:
        spark.conf.unset(name)
