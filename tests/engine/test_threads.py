"""The runner on all cores: threads, how they start, fail and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sparklake import errors
from sparklake.engine import sort
from sparklake.engine import threads as threads_module
from sparklake.engine.sort import slices_in_order
from sparklake.engine.threads import LocalRunner, ThreadRunner
from sparklake.errors import MergeConflictError
from sparklake.rows.records import record_batch
from tests.support.runner_contract import (
    RunnerContract,
    broken_body,
    conflict_body,
    keys_body,
    keys_in,
    recording_encode,
    several_batches_body,
)
from tests.support.task_bodies import thread_body, waiting_body, work_of

ROOT = Path(__file__).parents[2]
TASK_THREAD = "sparklake-task"


class TestThreadRunner(RunnerContract):
    @pytest.fixture
    def runner(self, threads: ThreadRunner) -> ThreadRunner:
        return threads


@pytest.fixture
def own() -> Iterator[ThreadRunner]:
    """Return a runner that the test may close."""
    runner = ThreadRunner(2)
    yield runner
    runner.close()


def names(runner: ThreadRunner, rows: int = 12) -> set[str]:
    """Return the names of the task threads."""
    batches = list(runner.collect(thread_body, work_of(rows)))
    return {name for batch in batches for name in batch.column("thread").to_pylist()}


def task_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith(TASK_THREAD)}


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, limited only by the test's timeout."""
    while not condition():
        time.sleep(0.01)


# --- where tasks run ------------------------------------------------------------------------------


def test_tasks_reuse_their_threads(own: ThreadRunner) -> None:
    before = task_threads()
    thread_names = names(own) | names(own) | names(own)
    assert thread_names <= {f"{TASK_THREAD}-0", f"{TASK_THREAD}-1"}
    assert 1 <= len(task_threads() - before) <= 2


def test_tasks_run_concurrently(own: ThreadRunner, tmp_path: Path) -> None:
    def both_have_begun() -> bool:
        return len(list(tmp_path.glob("begun-*"))) == 2

    def go() -> None:
        until(both_have_begun)
        (tmp_path / "go").touch()

    helper = threading.Thread(target=go)
    helper.start()
    list(own.collect(partial(waiting_body, tmp_path), work_of(2)))
    helper.join()
    assert both_have_begun()


def test_no_thread_starts_before_the_first_task(own: ThreadRunner) -> None:
    before = task_threads()
    assert list(own.collect(thread_body, work_of(0))) == []
    (here,) = own.stream(thread_body, work_of(1))
    assert here.column("thread").to_pylist() == [threading.current_thread().name]
    assert task_threads() == before


def test_the_first_rows_of_a_stream_need_no_thread(own: ThreadRunner) -> None:
    before = task_threads()
    stream = own.stream(several_batches_body, work_of(50))
    assert next(stream).column("seen").to_pylist() == [[0, 0]]
    assert task_threads() == before


def test_a_stream_runs_a_limited_number_of_tasks_ahead(own: ThreadRunner, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    stream = own.stream(partial(waiting_body, tmp_path), work_of(100))
    for _ in range(3):
        next(stream)
    until(lambda: len(list(tmp_path.glob("done-*"))) >= 5)
    stream.close()
    names(own)
    assert len(list(tmp_path.glob("begun-*"))) < 20


def test_a_closed_runner_starts_new_threads_for_the_next_task(own: ThreadRunner) -> None:
    before = task_threads()
    names(own)
    started = task_threads() - before
    own.close()
    assert started
    assert not any(each.is_alive() for each in started)
    assert names(own)
    assert task_threads() - before
    own.close()
    own.close()
    assert task_threads() == before


def test_concurrent_callers_share_the_threads(own: ThreadRunner) -> None:
    thread_names: list[set[str]] = []
    callers = [threading.Thread(target=lambda: thread_names.append(names(own))) for _ in range(4)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert len(thread_names) == 4
    assert len(set().union(*thread_names)) <= 2


def test_task_size_is_within_its_limits() -> None:
    runner = ThreadRunner(4)
    assert [runner.task_records(each) for each in (0, 1_000_000, 10**9)] == [
        20_000,
        62_500,
        250_000,
    ]


# --- sorting --------------------------------------------------------------------------------------


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "_SLICE_BYTES", 2000)
    monkeypatch.setattr(threads_module, "_MIN_SHARE_BYTES", 2000)


def position_body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield how many rows a run of this body was given."""
    yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])


@pytest.mark.usefixtures("small_slices")
def test_a_sort_is_split_into_slices_and_key_ranges(threads: ThreadRunner, tmp_path: Path) -> None:
    records = [(b"%04d" % (number * 701 % 1000), b"x" * 20) for number in range(1000)]
    batches = [record_batch(records[at : at + 10]) for at in range(0, 1000, 10)]
    keys = keys_in(threads.sort_and_collect(iter, keys_body, iter(batches)))
    assert keys == sorted(key for key, _ in records)
    counts = threads.sort_and_collect(iter, position_body, pa.Table.from_batches(batches))
    rows = [row for batch in counts for row in batch.column("rows").to_pylist()]
    assert sum(rows) == 1000
    assert len(rows) > 5
    assert max(rows) < 400


@pytest.mark.usefixtures("small_slices")
def test_a_source_is_read_during_its_sort(threads: ThreadRunner, tmp_path: Path) -> None:
    """It may be larger than memory: only some slices wait for a thread."""
    ahead: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            ahead.append(number - len(list(tmp_path.iterdir())))
            yield pa.record_batch(
                [pa.array([number]), pa.array(["x" * 2000])], ["position", "task"]
            )

    encode = partial(recording_encode, tmp_path)
    keys = keys_in(threads.sort_and_collect(encode, keys_body, source()))
    assert len(keys) == 100
    assert max(ahead) <= 10


def paths_encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keys = [path.encode() for path in batch.column("path").to_pylist()]
        yield record_batch([(key, b"stored") for key in keys])


def test_a_table_in_path_order_is_sorted_without_files(
    threads: ThreadRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task has consecutive rows. A repeated or missing path needs the sort."""
    paths = [f"{number:06}" for number in range(60_000)]
    halves = [pa.table({"path": paths[:7]}), pa.table({"path": paths[7:]})]
    rows = pa.concat_tables(halves)
    for others in ([*paths[:3], paths[2]], ["b", "a"], ["a", None]):
        assert slices_in_order(pa.table({"path": others}), 10) == []
    monkeypatch.delattr(sort, "sort_to_files")
    for runner in (threads, LocalRunner()):
        batches = list(runner.sort_and_collect(paths_encode, keys_body, rows))
        assert keys_in(batches) == [path.encode() for path in paths]
        tasks = runner.sort_and_collect(paths_encode, position_body, rows)
        counts = [row for batch in tasks for row in batch.column("rows").to_pylist()]
        assert sum(counts) == 60_000
        assert (len(counts) > 1) == (runner is threads)


def test_an_error_of_a_source_is_raised(threads: ThreadRunner) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield record_batch([(b"a", b"")])
        raise errors.MissingFileError("of the source")

    with pytest.raises(errors.MissingFileError, match="of the source"):
        threads.sort_and_collect(iter, keys_body, source())


# --- errors ---------------------------------------------------------------------------------------


def test_an_error_keeps_its_attributes(threads: ThreadRunner) -> None:
    with pytest.raises(MergeConflictError) as raised:
        list(threads.collect(conflict_body, work_of(1)))
    assert (str(raised.value), raised.value.conflicts, raised.value.count) == ("two", ["a", "b"], 2)


def test_a_failed_plan_leaves_no_running_task(own: ThreadRunner, tmp_path: Path) -> None:
    def fail_or_wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            position = batch.column("position")[0].as_py()
            if position == 1:
                raise ZeroDivisionError
            (tmp_path / f"begun-{position}").touch()
            if position == 0:
                until(lambda: len(list(tmp_path.glob("done-*"))) >= 5)
            (tmp_path / f"done-{position}").touch()
            yield batch

    with pytest.raises(ZeroDivisionError):
        list(own.collect(fail_or_wait, work_of(200)))
    started, done = (len(list(tmp_path.glob(f"{each}-*"))) for each in ("begun", "done"))
    assert started == done
    with pytest.raises(ZeroDivisionError):
        list(own.collect(broken_body, work_of(200)))
    assert len(names(own)) <= 2


# --- Ctrl-C ---------------------------------------------------------------------------------------

WAITING = """
import sys, threading, time
from functools import partial
from pathlib import Path
from sparklake.engine.threads import ThreadRunner
from tests.support.task_bodies import waiting_body, work_of

folder = Path(sys.argv[1])

def report():
    while len(list(folder.glob("begun-*"))) < 2:
        time.sleep(0.01)
    print("begun", flush=True)

threading.Thread(target=report, daemon=True).start()
try:
    list(ThreadRunner(2).collect(partial(waiting_body, folder), work_of(5)))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(130)
"""


def test_an_interrupt_stops_a_program_with_waiting_tasks(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    output, words = process.communicate(timeout=20)
    assert (process.returncode, output, words) == (130, "interrupted\n", "")
    assert list(tmp_path.glob("done-*")) == []
