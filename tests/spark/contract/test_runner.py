"""What the Spark runner promises of any body: classic Spark and Spark Connect alike."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sparklake import session
from sparklake.engine.spark import SparkRunner
from tests.support.runner_contract import RunnerContract, seen_by
from tests.support.spark import REMOTE
from tests.support.task_bodies import work_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.connect]


def positions_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one batch for a partition: which rows it was given."""
    seen = [each for batch in batches for each in batch.column("position").to_pylist()]
    yield pa.record_batch([pa.array([seen], pa.list_(pa.int64()))], names=["seen"])


def test_the_session_is_of_the_kind_that_was_asked_for(spark: SparkSession) -> None:
    assert (".connect." in type(spark).__module__) == bool(os.environ.get(REMOTE))


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_each_row_of_work_is_a_task_of_its_own(runner: SparkRunner, rows: int) -> None:
    expected = [[number] for number in range(rows)]
    assert seen_by(runner.collect(positions_body, work_of(rows))) == expected
    ddl = "seen array<bigint>"
    frame = runner.tasks(work_of(rows)).mapInArrow(positions_body, ddl)
    assert [row.seen for row in frame.collect()] == expected


def test_more_work_than_partitions_is_shared_evenly_and_in_order(
    runner: SparkRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparklake.engine.spark.MAX_PARTITIONS", 4)
    seen = seen_by(runner.collect(positions_body, work_of(12)))
    assert [each for rows in seen for each in rows] == list(range(12))
    assert [len(rows) for rows in seen] == [3, 3, 3, 3]


def test_no_work_is_an_empty_frame(runner: SparkRunner) -> None:
    assert runner.tasks(work_of(0)).count() == 0


class TestSparkRunner(RunnerContract):
    pass


# --- the session at hand --------------------------------------------------------------------------


def test_the_session_at_hand_is_found_and_left_as_it_is(spark: SparkSession) -> None:
    shuffle, zone = "spark.sql.shuffle.partitions", "spark.sql.session.timeZone"
    spark.conf.set(zone, "Asia/Tokyo")
    try:
        assert session.active_session() is spark
        assert session.spark_session() is spark
        assert (spark.conf.get(shuffle), spark.conf.get(zone)) == ("2", "Asia/Tokyo")
    finally:
        spark.conf.set(zone, "UTC")


def test_the_session_at_hand_is_found_in_any_thread(spark: SparkSession) -> None:
    found: list[SparkSession] = []
    thread = threading.Thread(target=lambda: found.append(session.spark_session()))
    thread.start()
    thread.join()
    assert found == [spark]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
