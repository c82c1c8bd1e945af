"""Simulated schedules break no rule, replay from their seed, and catch each missing guard.

`SPARKLAKE_SCHEDULES` chooses how many schedules `make test-slow` runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from campaigns.simulator.missing_guards import MISSING_GUARDS
from campaigns.simulator.simulation import ViolationError, simulator

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "proof.md"
FEW = 40
SCHEDULES = 500
MORE_SCHEDULES = int(os.environ.get("SPARKLAKE_SCHEDULES", "200000"))
MORE_SHARES = 8
ENOUGH = 10_000

VERBS = {
    *("put", "put_many", "remove", "put_and_commit", "commit", "merge", "revert", "cherry_pick"),
    *("undo", "hard_reset", "reset", "reset_path", "create_branch", "delete_branch"),
    *("create_tag", "delete_tag", "read_tree", "read_object", "read_head"),
}


def run_all(seeds: range) -> Counter[str]:
    """Run schedules; return how often each verb succeeded."""
    verbs: Counter[str] = Counter()
    with simulator() as simulated:
        for seed in seeds:
            verbs += simulated.run(seed).verbs
    return verbs


def test_a_few_schedules_break_no_rule() -> None:
    assert run_all(range(FEW)).total() > FEW


@pytest.mark.system
@pytest.mark.timeout(1800)
def test_no_schedule_breaks_a_rule() -> None:
    verbs = run_all(range(FEW, FEW + SCHEDULES))
    assert verbs.keys() >= VERBS


@pytest.mark.exhaustive
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("share", range(MORE_SHARES))
def test_very_many_schedules_break_no_rule(share: int) -> None:
    first = FEW + SCHEDULES
    run_all(range(first + share, first + MORE_SCHEDULES, MORE_SHARES))


def test_a_seed_repeats_its_schedule() -> None:
    with simulator() as simulated:
        traces = [simulated.run(seed).trace for seed in (3, 7, 11)]
        assert [simulated.run(seed).trace for seed in (3, 7, 11)] == traces
    assert len({tuple(each) for each in traces}) == 3


@pytest.mark.system
def test_a_seed_repeats_its_schedule_in_another_process(tmp_path: Path) -> None:
    """The order of sets is different there, and so are the folders of dead processes."""
    (tmp_path / "1").mkdir()
    (tmp_path / "2" / f"sparklake-{os.getuid()}-dead").mkdir(parents=True)
    command = [sys.executable, "-m", "campaigns.simulator", "--trace", "--schedules", "20"]
    printed = [
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": name, "SPARKLAKE_SCRATCH": str(tmp_path / name)},
        ).stdout.splitlines()
        for name in ("1", "2")
    ]
    traces = [[line for line in each if "Store." in line] for each in printed]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 100


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", MISSING_GUARDS)
def test_a_missing_guard_is_caught(name: str) -> None:
    """By its seed or, after changes of the code or the simulator, by a seed soon after it."""
    guard = MISSING_GUARDS[name]
    with guard.removed(), pytest.raises(ViolationError):
        run_all(range(guard.seed, guard.seed + ENOUGH))


def test_every_guard_can_be_removed() -> None:
    """A patch without a target raises, so a rename cannot disarm it."""
    for guard in MISSING_GUARDS.values():
        with guard.removed():
            pass


def test_the_document_contains_the_seeds() -> None:
    rows = re.findall(r"^\| ([^`|]+) \| (\d+) \|$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    assert rows == [(name, str(guard.seed)) for name, guard in MISSING_GUARDS.items()]


def test_a_violation_reports_its_seed_and_its_trace() -> None:
    guard = MISSING_GUARDS["a collection ignores staged rows"]
    with guard.removed():
        with pytest.raises(ViolationError) as raised:
            run_all(range(guard.seed, guard.seed + ENOUGH))
        seed = raised.value.seed
        assert str(raised.value).startswith(f"seed {seed}: LostObjectError: ")
        with pytest.raises(ViolationError) as again:
            run_all(range(seed, seed + 1))
    assert str(again.value) == str(raised.value)
    assert again.value.trace == raised.value.trace != []
