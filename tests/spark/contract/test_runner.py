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
from sparklake.engine.base import Body
from sparklake.engine.spark import SparkRunner
from sparklake.errors import CorruptFileError, MissingFileError, SparklakeError
from sparklake.udfs.writing import RECORD_SCHEMA
from tests.support.spark import REMOTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def work_of(rows: int) -> pa.Table:
    column = [b"task %d" % number for number in range(rows)]
    return pa.table({"position": pa.array(range(rows), pa.int64()), "task": column})


def positions_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields one batch for a partition: which rows it was given."""
    seen = [each for batch in batches for each in batch.column("position").to_pylist()]
    yield pa.record_batch([pa.array([seen], pa.list_(pa.int64()))], names=["seen"])


def seen_by(batches: Iterable[pa.RecordBatch]) -> list[list[int]]:
    return [row for batch in batches for row in batch.column("seen").to_pylist()]


def several_batches_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for position in batch.column("position").to_pylist():
            for part in range(3):
                yield pa.record_batch([pa.array([[position, part]])], names=["seen"])


def failing_body(
    kind: type[SparklakeError], message: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        try:
            raise CorruptFileError("this is only the cause")
        except CorruptFileError as error:
            raise kind(message) from error
    yield from ()


def broken_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        raise ZeroDivisionError("a defect of ours, not an error of ours")
    yield from ()


def recording_encode(folder: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields a record for each row, in descending order, and notes that it was there."""
    for batch in batches:
        for position in reversed(batch.column("position").to_pylist()):
            (folder / f"{position}-{uuid.uuid4().hex}").touch()
            columns = [[b"key %04d" % position], [b"stored"]]
            yield pa.record_batch([pa.array(each) for each in columns], schema=RECORD_SCHEMA)


def keys_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(["key"])


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


def test_a_stream_is_in_the_order_of_the_work(runner: SparkRunner) -> None:
    streamed = seen_by(runner.stream(several_batches_body, work_of(5)))
    assert streamed == [[position, part] for position in range(5) for part in range(3)]


def test_a_stream_that_is_left_half_way_does_no_harm(runner: SparkRunner) -> None:
    stream = runner.stream(several_batches_body, work_of(4))
    assert seen_by([next(stream)]) == [[0, 0]]
    stream.close()
    assert len(seen_by(runner.collect(positions_body, work_of(2)))) == 2


def test_no_work_needs_no_job(runner: SparkRunner) -> None:
    assert runner.collect(broken_body, work_of(0)) == []
    assert list(runner.stream(broken_body, work_of(0))) == []
    assert runner.tasks(work_of(0)).count() == 0


def test_sorting_gives_every_key_once_in_order_and_encodes_once(
    runner: SparkRunner, tmp_path: Path
) -> None:
    encode = partial(recording_encode, tmp_path)
    batches = runner.sort_and_collect(encode, keys_body, work_of(40))
    keys = [key for batch in batches for key in batch.column("key").to_pylist()]
    assert keys == [b"key %04d" % number for number in range(40)]
    noted = sorted(int(each.name.partition("-")[0]) for each in tmp_path.iterdir())
    assert noted == list(range(40)), "encoding, which may hash whole files, ran twice"


def test_sorting_nothing_gives_nothing(runner: SparkRunner) -> None:
    assert not any(runner.sort_and_collect(iter, keys_body, pa.table([[], []], RECORD_SCHEMA)))
    assert not any(runner.sort_and_collect(iter, keys_body, iter(())))


# --- errors ---------------------------------------------------------------------------------------

MESSAGE = (
    """There is no object 'naïve "Stück"\\ 日本.csv'\nsparklake.errors.RaceLostError: restore it"""
)


def run_in_a_way(runner: SparkRunner, way: str, body: Body) -> None:
    # A task that fails takes its Python worker with it, so one task is enough.
    if way == "collect":
        runner.collect(body, work_of(1))
    elif way == "stream":
        list(runner.stream(body, work_of(1)))
    else:
        runner.sort_and_collect(body, keys_body, work_of(1))


@pytest.mark.parametrize("way", ["collect", "stream", "encode"])
def test_an_error_of_a_task_is_ours_again_and_says_what_it_said_there(
    runner: SparkRunner, way: str
) -> None:
    with pytest.raises(SparklakeError) as raised:
        run_in_a_way(runner, way, partial(failing_body, MissingFileError, MESSAGE))
    assert type(raised.value) is MissingFileError
    assert str(raised.value) == MESSAGE
    assert raised.value.__cause__ is not None, "Spark's report tells where it happened"


def test_what_is_not_ours_stays_what_it_is(runner: SparkRunner) -> None:
    with pytest.raises(Exception, match="a defect of ours") as raised:
        run_in_a_way(runner, "stream", broken_body)
    assert not isinstance(raised.value, SparklakeError)


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
