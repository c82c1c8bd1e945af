"""What the Spark runner promises of any body: classic Spark and Spark Connect alike."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sparklake import session
from sparklake.engine.base import Sortable
from sparklake.engine.spark import SparkRunner, _order
from sparklake.rows.records import record_batch
from sparklake.verbs.base.staging import rows_by_path
from tests.support.runner_contract import RunnerContract, keys_body, keys_in, seen_by
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


def path_encode(folder: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task, and record the order in which its rows came."""
    for batch in batches:
        paths = [str(each, "utf-8") for each in batch.column("path").cast("binary").to_pylist()]
        (folder / uuid.uuid4().hex).write_text("\n".join(paths))
        yield record_batch([(path.encode(), b"stored") for path in paths])


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_sortable_rows_are_encoded_once(
    runner: SparkRunner, spark: SparkSession, kind: str, tmp_path: Path
) -> None:
    """Rows are sorted before they are encoded, where Spark sorts paths by their bytes."""
    paths = [f"{number * 37 % 100:03d}{'é' * (number % 2)}" for number in range(100)]
    rows = spark.createDataFrame([(each,) for each in paths], "path string").repartition(5)
    source = Sortable(rows.selectExpr(f"CAST(path AS {kind}) AS path"), "path")
    keys = keys_in(runner.sort_and_collect(partial(path_encode, tmp_path), keys_body, source))
    assert keys == sorted(each.encode() for each in paths)
    encoded = [each.read_text().split("\n") for each in tmp_path.iterdir()]
    assert sorted(path for each in encoded for path in each) == sorted(paths)
    assert all(each == sorted(each) for each in encoded) == (kind == "string")


@pytest.mark.parametrize(
    ("path", "order"), [("path string", ["path", "size", "checksum"]), ("path binary", [])]
)
def test_the_columns_to_sort_by(spark: SparkSession, path: str, order: list[str]) -> None:
    ddl = f"{path}, size smallint, checksum string, metadata map<string, string>"
    rows = spark.createDataFrame([], ddl)
    source = rows_by_path(rows)
    assert isinstance(source, Sortable)
    assert _order(source) == order
    assert not isinstance(rows_by_path(rows.drop("checksum")), Sortable), "tasks hash objects"


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
