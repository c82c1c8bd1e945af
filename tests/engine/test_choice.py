"""Where plans run on one machine: here while they are small, on all cores when they are large."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sparklake import Engine, Lake
from sparklake.engine import choice
from sparklake.engine.choice import THREAD_RECORDS, Runners
from sparklake.testing.memory import MemoryRefStore

SIZES = (0, THREAD_RECORDS - 1, THREAD_RECORDS, 10**9)


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "active_session", lambda: None)


@pytest.fixture(params=[Engine.AUTO, Engine.LOCAL])
def runners(request: pytest.FixtureRequest) -> Iterator[Runners]:
    runners = Runners(request.param, workers=2)
    yield runners
    runners.close()


def choices(runners: Runners) -> list[str]:
    return [runners.choose(records).name for records in SIZES]


def test_large_plans_run_on_threads(runners: Runners) -> None:
    assert choices(runners) == ["local"] * 2 + ["threads"] * 2


def test_a_single_worker_runs_in_the_calling_thread() -> None:
    assert choices(Runners(workers=1)) == ["local"] * 4


def test_the_default_is_one_worker_more_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert choices(Runners()) == ["local"] * 4
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 5})
    assert Runners().on_threads().workers == 4
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert Runners().on_threads().workers == 8


def task_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("sparklake-task")}


def rows(count: int, version: str) -> pa.Table:
    paths = [f"x/{number:05d}" for number in range(count)]
    sums = [f"{version}-{number}" for number in range(count)]
    addresses = [f"data/{each}" for each in sums]
    sizes = [1] * count
    return pa.table({"path": paths, "size": sizes, "address": addresses, "checksum": sums})


def history(lake: Lake, folder: Path) -> list[object]:
    """Stage, commit, compare, merge and list some thousand objects, and return the results."""
    repo = lake.create_repository("lake", str(folder), range_records=64)
    main = repo.branch("main")
    main.stage(rows(5000, "a"))
    ids = [main.commit("all").meta_range_id]
    dev = repo.create_branch("dev", "main")
    dev.stage(rows(4000, "b").slice(1000))
    ids.append(dev.commit("some").meta_range_id)
    main.stage(rows(500, "c"))
    main.commit("others")
    ids.append(repo.merge("dev", "main").meta_range_id)
    listed = [each.path for each in repo.objects("main")]
    return [ids, len(list(repo.diff("main", "dev"))), listed]


def test_threads_give_the_same_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "THREAD_RECORDS", 100)
    monkeypatch.setattr("sparklake.engine.base._MIN_TASK_RECORDS", 100)
    histories = []
    others = task_threads()
    for workers in (1, 2):
        runners = Runners(Engine.LOCAL, workers=workers)
        with Lake(MemoryRefStore(), runners, "tester") as lake:
            histories.append(history(lake, tmp_path / str(workers)))
            assert len(task_threads() - others) == (0 if workers == 1 else 2)
        assert task_threads() == others, "closing a lake ends its threads"
    assert histories[0] == histories[1]
    assert histories[0][1] == 500
