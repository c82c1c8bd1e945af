"""The contract of runners, and bodies to test it.

The bodies are functions of this module, so that Spark's workers can import them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklake.engine.base import Body, Runner
from sparklake.errors import CorruptFileError, MergeConflictError, MissingFileError, SparklakeError
from sparklake.rows.records import RECORD_SCHEMA, record_batch
from sparklake.visible import visible_line
from tests.support.task_bodies import work_of

MESSAGE = (
    """There is no object 'naïve "Stück"\\ 日本.csv'\nsparklake.errors.RaceLostError: restore it"""
)


def several_batches_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for position in batch.column("position").to_pylist():
            for part in range(3):
                yield pa.record_batch([pa.array([[position, part]])], names=["seen"])


def seen_by(batches: Iterable[pa.RecordBatch]) -> list[list[int]]:
    return [row for batch in batches for row in batch.column("seen").to_pylist()]


def slices_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield slices of larger batches, as a body may."""
    for batch in batches:
        yield batch.slice(0, 1).select(["position"])


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
    """Yield a record for each row, in descending order, and record the call."""
    for batch in batches:
        for position in reversed(batch.column("position").to_pylist()):
            (folder / f"{position}-{uuid.uuid4().hex}").touch()
            yield record_batch([(b"key %04d" % position, b"stored")])


def keys_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(["key"])


def keys_in(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    return [key for batch in batches for key in batch.column("key").to_pylist()]


def run_in_a_way(runner: Runner, way: str, body: Body) -> None:
    # A task of Spark's that fails takes its Python worker with it, so one task is enough.
    if way == "collect":
        list(runner.collect(body, work_of(1)))
    elif way == "stream":
        list(runner.stream(body, work_of(1)))
    elif way == "encode":
        runner.sort_and_collect(body, keys_body, work_of(1))
    else:
        runner.sort_and_collect(iter, body, [record_batch([(b"key", b"stored")])])


class RunnerContract:
    """The contract of a runner. A subclass supplies the fixture `runner`."""

    def test_every_row_of_work_is_processed_once(self, runner: Runner) -> None:
        rows = seen_by(runner.collect(several_batches_body, work_of(7)))
        assert sorted(rows) == [[position, part] for position in range(7) for part in range(3)]

    def test_a_stream_keeps_the_order_of_the_work(self, runner: Runner) -> None:
        streamed = seen_by(runner.stream(several_batches_body, work_of(12)))
        assert streamed == [[position, part] for position in range(12) for part in range(3)]

    def test_a_stream_can_be_abandoned(self, runner: Runner) -> None:
        stream: Any = runner.stream(several_batches_body, work_of(4))
        assert seen_by([next(stream), next(stream)]) == [[0, 0], [0, 1]]
        stream.close()
        assert len(seen_by(runner.collect(several_batches_body, work_of(2)))) == 6

    def test_slices_contain_only_their_rows(self, runner: Runner) -> None:
        work = work_of(9).slice(3, 4)
        batches = list(runner.collect(slices_body, work))
        rows = [row for batch in batches for row in batch.column("position").to_pylist()]
        assert set(rows) <= {3, 4, 5, 6}
        assert 3 in rows

    def test_no_work_runs_no_task(self, runner: Runner) -> None:
        assert list(runner.collect(broken_body, work_of(0))) == []
        assert list(runner.stream(broken_body, work_of(0))) == []

    def test_a_sort_returns_every_key_in_order_and_encodes_once(
        self, runner: Runner, tmp_path: Path
    ) -> None:
        encode = partial(recording_encode, tmp_path)
        keys = keys_in(runner.sort_and_collect(encode, keys_body, work_of(40)))
        assert keys == [b"key %04d" % number for number in range(40)]
        encoded = sorted(int(each.name.partition("-")[0]) for each in tmp_path.iterdir())
        assert encoded == list(range(40)), "encoding, which may hash whole files, ran twice"

    def test_an_empty_sort_returns_nothing(self, runner: Runner) -> None:
        empty = pa.table([[], []], RECORD_SCHEMA)
        assert not any(runner.sort_and_collect(iter, keys_body, empty))
        assert not any(runner.sort_and_collect(iter, keys_body, iter(())))

    @pytest.mark.parametrize("way", ["collect", "stream", "encode", "sorted"])
    def test_an_error_of_a_task_keeps_its_message(self, runner: Runner, way: str) -> None:
        with pytest.raises(SparklakeError) as raised:
            run_in_a_way(runner, way, partial(failing_body, MissingFileError, MESSAGE))
        assert type(raised.value) is MissingFileError
        assert str(raised.value) == visible_line(MESSAGE)
        assert raised.value.__cause__ is not None, "it tells where it happened"

    def test_a_foreign_error_is_not_translated(self, runner: Runner) -> None:
        with pytest.raises(Exception, match="a defect of ours") as raised:
            run_in_a_way(runner, "stream", broken_body)
        assert not isinstance(raised.value, SparklakeError)


def conflict_body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Raise an error of several arguments."""
    for _ in batches:
        raise MergeConflictError("two", ["a", "b"], 2)
    yield from ()
