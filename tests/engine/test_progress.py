"""Progress of a running plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sparklake import Engine, Lake
from sparklake.engine.choice import Runners
from sparklake.engine.execution import run_plan
from sparklake.engine.threads import LocalRunner
from sparklake.graveler.planning.plan import plan_merge
from sparklake.strategies.resolution import Resolution
from sparklake.testing.memory import MemoryRefStore
from sparklake.udfs.write_ranges import merge_body
from tests.support.trees import Trees, open_trees

KEYS = [b"k%03d" % number for number in range(200)]


class RecordedProgress:
    """Records the reported progress."""

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.read: list[int] = []

    def begin(self, ranges: int) -> None:
        self.totals.append(ranges)
        self.read.append(0)

    def advance(self, ranges: int) -> None:
        self.read[-1] += ranges


@pytest.fixture
def trees() -> Iterator[Trees]:
    with open_trees(range_records=4) as opened:
        yield opened


@pytest.mark.parametrize("task_records", [10, 10_000])
def test_a_merge_reports_progress_after_each_task(trees: Trees, task_records: int) -> None:
    progress, before_task = RecordedProgress(), list[int]()

    def body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for result in merge_body(trees.workspace, Resolution(), batches):
            before_task.append(progress.read[-1])
            yield result

    base = dict.fromkeys(KEYS, b"0")
    source = base | dict.fromkeys(KEYS[::20], b"1")
    dest = {key: base[key] for key in KEYS if key not in KEYS[1::20]}
    plan = plan_merge(*(trees.write(each).ranges for each in (base, source, dest)))
    run_plan(LocalRunner(), body, plan, task_records, progress)
    assert len(plan.opened) > 10
    assert progress.totals == progress.read
    assert progress.totals[0] >= len(plan.opened)
    assert before_task == sorted(before_task)
    assert len(set(before_task)) == len(before_task), "each task adds its ranges as it ends"
    assert (len(before_task) > 5) == (task_records == 10)


def test_an_empty_plan_reports_no_ranges(trees: Trees) -> None:
    progress = RecordedProgress()
    body = partial(merge_body, trees.workspace, Resolution())
    run_plan(LocalRunner(), body, plan_merge((), (), ()), progress=progress)
    assert (progress.totals, progress.read) == ([0], [0])


def test_a_diff_reports_progress_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = RecordedProgress()
    monkeypatch.setattr(LocalRunner, "task_records", lambda *_: 20)
    lake = Lake(MemoryRefStore(), Runners(Engine.LOCAL, progress=progress), "tester")
    repo = lake.create_repository("lake", f"{tmp_path}/namespace", range_records=4)
    main = repo.branch("main")
    names = [key.decode() for key in KEYS]
    table = {"path": names, "size": [1] * len(names), "address": names, "checksum": names}
    main.stage(pa.table(table))
    main.commit("all")
    assert len(progress.totals) == 1, "of the staged run, as the branch is empty"
    for name in names[::40]:
        main.put(name, b"new")
    main.commit("some")
    assert progress.totals == progress.read
    assert progress.totals[-1] >= len(names[::40])
    diff = repo.diff("main~1", "main")
    progress_values = [progress.read[-1] for _ in diff.batches()]
    assert progress.totals == progress.read
    assert progress.totals[-1] >= len(diff.plan.opened) >= 2 * len(names[::40])
    assert progress_values == sorted(progress_values)
    assert progress_values[0] == 0
    assert progress_values[-1] > 0
