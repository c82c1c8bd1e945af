"""The runner on all cores: worker processes, how they start, fail and end."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sparklake import errors
from sparklake.engine import pool as pool_module
from sparklake.engine.pool import PoolRunner
from sparklake.errors import (
    HookFailedError,
    LostWorkerError,
    MergeConflictError,
    SparklakeError,
    TransactionError,
)
from sparklake.udfs.objects.object_rows import record_batch
from tests.support.pool_bodies import (
    first_dies_body,
    pid_body,
    unpicklable_body,
    waiting_body,
    work_of,
)
from tests.support.runner_contract import (
    RunnerContract,
    broken_body,
    conflict_body,
    keys_body,
    keys_in,
    recording_encode,
    several_batches_body,
)

ROOT = Path(__file__).parents[2]


class TestPoolRunner(RunnerContract):
    @pytest.fixture
    def runner(self, pool: PoolRunner) -> PoolRunner:
        return pool


@pytest.fixture
def own() -> Iterator[PoolRunner]:
    """Return a pool whose workers a test may kill."""
    runner = PoolRunner(2)
    yield runner
    runner.close()


def pids(runner: PoolRunner, rows: int = 12) -> set[int]:
    batches = list(runner.collect(pid_body, work_of(rows)))
    return {pid for batch in batches for pid in batch.column("pid").to_pylist()}


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must come; the time limit of tests is that of this, too."""
    while not condition():
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


# --- where tasks run ------------------------------------------------------------------------------


def test_tasks_run_in_other_processes_that_stay(pool: PoolRunner) -> None:
    found = pids(pool) | pids(pool) | pids(pool)
    assert os.getpid() not in found
    assert 1 <= len(found) <= 2


def test_nothing_starts_before_the_first_task(own: PoolRunner) -> None:
    assert not own.is_warm
    assert list(own.collect(pid_body, work_of(0))) == []
    (here,) = own.stream(pid_body, work_of(1))
    assert here.column("pid").to_pylist() == [os.getpid()]
    assert not own.is_warm
    list(own.collect(pid_body, work_of(1)))
    assert own.is_warm


def test_the_first_rows_of_a_stream_wait_for_no_worker(own: PoolRunner) -> None:
    stream = own.stream(several_batches_body, work_of(50))
    assert next(stream).column("seen").to_pylist() == [[0, 0]]
    assert not own.is_warm


def test_a_stream_runs_some_tasks_ahead_and_no_more(pool: PoolRunner, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    stream = pool.stream(partial(waiting_body, tmp_path), work_of(100))
    for _ in range(3):
        next(stream)
    until(lambda: len(list(tmp_path.glob("done-*"))) >= 5)
    stream.close()
    pids(pool)
    assert len(list(tmp_path.glob("begun-*"))) < 20


def test_closing_ends_the_workers_and_the_next_task_starts_new_ones(own: PoolRunner) -> None:
    before = pids(own)
    own.close()
    assert all(map(is_gone, before))
    assert not own.is_warm
    assert not pids(own) & before
    own.close()
    own.close()


def test_closing_ends_tasks_in_their_midst_and_their_folders(
    own: PoolRunner, tmp_path: Path
) -> None:
    raised: list[BaseException] = []

    def collect() -> None:
        try:
            list(own.collect(partial(waiting_body, tmp_path), work_of(5)))
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    thread = threading.Thread(target=collect)
    thread.start()
    until(lambda: len(list(tmp_path.glob("begun-*"))) == 2)
    assert list(tmp_path.glob("sparklake-*"))
    own.close()
    thread.join()
    assert len(raised) == 1
    assert list(tmp_path.glob("sparklake-*")) == []
    assert list(tmp_path.glob("done-*")) == []


def test_threads_share_the_workers(own: PoolRunner) -> None:
    found: list[set[int]] = []
    threads = [threading.Thread(target=lambda: found.append(pids(own))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 4
    assert len(set().union(*found)) <= 2


def test_tasks_are_small_enough_to_share_out_and_no_smaller() -> None:
    runner = PoolRunner(4)
    assert [runner.task_records(each) for each in (0, 1_000_000, 10**9)] == [
        20_000,
        62_500,
        250_000,
    ]


# --- sorting --------------------------------------------------------------------------------------


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_SLICE_BYTES", 2000)
    monkeypatch.setattr(pool_module, "_MIN_SHARE_BYTES", 2000)


def position_body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield how many rows a run of this body was given."""
    yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])


@pytest.mark.usefixtures("small_slices")
def test_a_sort_is_shared_out_by_slices_and_by_keys(pool: PoolRunner, tmp_path: Path) -> None:
    records = [(b"%04d" % (number * 701 % 1000), b"x" * 20) for number in range(1000)]
    batches = [record_batch(records[at : at + 10]) for at in range(0, 1000, 10)]
    keys = keys_in(pool.sort_and_collect(iter, keys_body, iter(batches)))
    assert keys == sorted(key for key, _ in records)
    counts = pool.sort_and_collect(iter, position_body, pa.Table.from_batches(batches))
    rows = [row for batch in counts for row in batch.column("rows").to_pylist()]
    assert sum(rows) == 1000
    assert len(rows) > 5
    assert max(rows) < 400


@pytest.mark.usefixtures("small_slices")
def test_a_source_is_read_as_it_is_sorted(pool: PoolRunner, tmp_path: Path) -> None:
    """It may be larger than memory: only some slices wait for a worker."""
    ahead: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            ahead.append(number - len(list(tmp_path.iterdir())))
            yield pa.record_batch(
                [pa.array([number]), pa.array(["x" * 2000])], ["position", "task"]
            )

    keys = keys_in(pool.sort_and_collect(partial(recording_encode, tmp_path), keys_body, source()))
    assert len(keys) == 100
    assert max(ahead) <= 10


def test_an_error_of_a_source_is_that_error(pool: PoolRunner) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield record_batch([(b"a", b"")])
        raise errors.MissingFileError("of the source")

    with pytest.raises(errors.MissingFileError, match="of the source"):
        pool.sort_and_collect(iter, keys_body, source())


# --- errors ---------------------------------------------------------------------------------------


def test_an_error_of_several_parts_arrives_whole(pool: PoolRunner) -> None:
    with pytest.raises(MergeConflictError) as raised:
        list(pool.collect(conflict_body, work_of(1)))
    assert (str(raised.value), raised.value.conflicts, raised.value.count) == ("two", ["a", "b"], 2)


def kinds(root: type[SparklakeError]) -> Iterator[type[SparklakeError]]:
    for each in root.__subclasses__():
        yield each
        yield from kinds(each)


@pytest.mark.parametrize("kind", list(kinds(SparklakeError)))
def test_every_error_travels(kind: type[SparklakeError]) -> None:
    more: list[object] = []
    if issubclass(kind, MergeConflictError):
        more = [[1], 1]
    elif issubclass(kind, HookFailedError | TransactionError):
        more = ["name"]
    error = kind("words", *more)
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (kind, "words", vars(error))


def test_an_error_that_cannot_travel_is_told(pool: PoolRunner) -> None:
    with pytest.raises(RuntimeError, match="UnpicklableError: this and that") as raised:
        list(pool.collect(unpicklable_body, work_of(1)))
    assert "unpicklable_body" in str(raised.value.__cause__)


def test_a_failed_plan_leaves_no_task_behind(pool: PoolRunner) -> None:
    with pytest.raises(ZeroDivisionError):
        list(pool.collect(broken_body, work_of(200)))
    assert len(pids(pool)) <= 2


def test_a_worker_that_is_killed_in_a_task_is_told_and_replaced(
    own: PoolRunner, tmp_path: Path
) -> None:
    def kill_one() -> None:
        until(lambda: len(list(tmp_path.glob("begun-*"))) == 2)
        (first, *_) = tmp_path.glob("begun-*")
        os.kill(int(first.name.rpartition("-")[2]), signal.SIGKILL)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=kill_one)
    thread.start()
    with pytest.raises(LostWorkerError, match=r"killed by signal 9 .*SPARKLAKE_WORKERS"):
        list(own.collect(partial(waiting_body, tmp_path), work_of(2)))
    thread.join()
    assert sorted(row for row in positions(own)) == list(range(12))


def positions(runner: PoolRunner) -> list[int]:
    batches = list(runner.collect(pid_body, work_of(12)))
    return [row for batch in batches for row in batch.column("at").to_pylist()]


def test_a_task_that_kills_its_worker_each_time_is_told_each_time(own: PoolRunner) -> None:
    for _ in range(3):
        with pytest.raises(LostWorkerError):
            list(own.collect(first_dies_body, work_of(6)))
    assert len(positions(own)) == 12


def test_a_worker_that_is_killed_between_tasks_is_replaced(own: PoolRunner) -> None:
    before = pids(own, 30)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    for _ in range(4):
        assert len(positions(own)) == 12
    assert not pids(own) & before


# --- a driver that goes ---------------------------------------------------------------------------


def start_driver(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.pool_driver", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, list(map(int, process.stdout.readline().split()))


@pytest.mark.system
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_workers_go_with_a_driver_that_is_killed(name: str, tmp_path: Path) -> None:
    process, workers = start_driver(tmp_path)
    assert len(workers) == 2
    process.send_signal(signal.Signals[name])
    _, words = process.communicate()
    until(lambda: all(map(is_gone, workers)))
    until(lambda: not list(tmp_path.glob("sparklake-*")))
    assert words == ""
    assert list(tmp_path.glob("done-*")) == []


def test_an_interrupt_ends_the_workers_without_a_word(tmp_path: Path) -> None:
    process, workers = start_driver(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said, words = process.communicate()
    assert (process.returncode, said, words) == (130, "interrupted False\n", "")
    assert all(map(is_gone, workers))
    assert list(tmp_path.glob("sparklake-*")) == []


# --- ways to start a driver -----------------------------------------------------------------------

UNGUARDED = """
print("once")
import sys
from sparklake.engine.pool import PoolRunner
from tests.support.pool_bodies import pid_body, work_of
pool = PoolRunner(2)
print(len(list(pool.collect(pid_body, work_of(6)))), flush=True)
if "close" in sys.argv:
    pool.close()
"""


def run_python(*arguments: str, stdin: str = "", cwd: Path = ROOT) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout, done.stderr


EXPECTED = (0, "once\n6\n", "")


@pytest.mark.system
@pytest.mark.parametrize(
    ("way", "end"), [("command", "close"), ("stdin", "leave"), ("script", "leave")]
)
def test_a_driver_needs_no_guard_and_no_importable_main(way: str, end: str, tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(UNGUARDED)
    arguments = {"command": ["-c", UNGUARDED], "stdin": ["-"], "script": [str(script)]}
    stdin = UNGUARDED if way == "stdin" else ""
    assert run_python(*arguments[way], end, stdin=stdin, cwd=tmp_path) == EXPECTED


def test_modules_of_the_working_folder_do_not_get_in_the_way(tmp_path: Path) -> None:
    """A script's folder is searched first, by Python's own rule; that of the shell is not."""
    script = tmp_path / "scripts" / "unguarded.py"
    script.parent.mkdir()
    script.write_text(UNGUARDED)
    for name in ("pickle", "signal", "sparklake", "pyarrow"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    assert run_python(str(script), cwd=tmp_path) == EXPECTED
