"""What a terminal shows of a command that takes its time, and a pipe never."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sparklake.cli import progress
from sparklake.cli.progress import Meter
from tests.cli.running import Scene, said
from tests.cli.terminal import on_terminal

PATIENT = """
import sys
from sparklake.cli import main, progress

progress.PATIENCE_SECONDS = {seconds}
sys.exit(main.main())
"""


def command(seconds: float) -> Sequence[str]:
    """Return a command that says what it does after some seconds."""
    return (sys.executable, "-c", PATIENT.format(seconds=seconds))


AT_ONCE, NEVER = command(0), command(3600)


@pytest.fixture
def diverged(scene: Scene) -> Scene:
    scene.commit("main", {"a": "0", "b": "0", "c": "0"})
    scene.branch("dev")
    scene.commit("dev", {"a": "1"})
    scene.commit("main", {"b": "1"})
    return scene


def test_a_merge_counts_ranges_on_a_terminal(diverged: Scene) -> None:
    words = ("merge", diverged.uri("dev"), diverged.uri("main"))
    seen = on_terminal(*words, command=AT_ONCE)
    assert "merging" in seen
    assert re.search(r"[03] of 3 ranges", seen)


def test_a_commit_counts_ranges_on_a_terminal(diverged: Scene) -> None:
    diverged.put("main", {"c": "1"})
    seen = on_terminal("commit", diverged.uri("main"), "-m", "x", command=AT_ONCE)
    assert re.search(r"committing.*[01] of 1 ranges", seen)


def test_a_diff_counts_ranges_beside_a_file(diverged: Scene, tmp_path: Path) -> None:
    words = ("diff", diverged.uri("main"), diverged.uri("dev"))
    with (tmp_path / "rows").open("wb") as rows:
        seen = on_terminal(*words, command=AT_ONCE, stdout=rows)
    assert re.search(r"comparing.*[02] of 2 ranges", seen)
    assert (tmp_path / "rows").read_text().count("~ changed") == 2


def test_a_quick_command_says_nothing_of_it(diverged: Scene) -> None:
    seen = on_terminal("diff", diverged.uri("main"), diverged.uri("dev"), command=NEVER)
    assert "~ changed" in seen
    assert "comparing" not in seen
    assert "ranges" not in seen


def test_a_program_is_told_nothing_of_it(diverged: Scene) -> None:
    words = ("merge", diverged.uri("dev"), diverged.uri("main"))
    ran = subprocess.run([*AT_ONCE, *words], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    seen = on_terminal("log", diverged.uri("main"), "--output", "json", command=AT_ONCE)
    assert json.loads(seen) == said("log", diverged.uri("main"))


def test_a_result_takes_the_place_of_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 3600)
    meter = Meter()
    with meter.showing("working"):
        meter._show("working")
        meter.begin(3)
        meter.advance(2)
        assert meter._shown is not None
        bar, task = meter._shown
        assert (bar.tasks[task].completed, bar.tasks[task].total) == (2, 3)
        meter.hide()
        assert bar.finished is False
        assert not bar.live.is_started
        meter.advance(1)
    assert meter._shown is None
