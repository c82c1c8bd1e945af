"""What a terminal shows of a command that takes its time, and a pipe never."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest

from sparklake.cli import progress
from sparklake.cli.progress import Count, Meter
from sparklake.cli.progress_bar import _CountColumn, count_bar
from sparklake.engine.base import Amount
from tests.cli.running import Scene, ok, said
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


@pytest.mark.system
def test_a_commit_counts_ranges_on_a_terminal(diverged: Scene) -> None:
    diverged.put("main", {"c": "1"})
    seen = on_terminal("commit", diverged.uri("main"), "-m", "x", command=AT_ONCE)
    assert re.search(r"committing.*[01] of 1 ranges", seen)


@pytest.mark.system
def test_a_diff_counts_ranges_beside_a_file(diverged: Scene, tmp_path: Path) -> None:
    words = ("diff", diverged.uri("main"), diverged.uri("dev"))
    with (tmp_path / "rows").open("wb") as rows:
        seen = on_terminal(*words, command=AT_ONCE, stdout=rows)
    assert re.search(r"comparing.*[02] of 2 ranges", seen)
    assert (tmp_path / "rows").read_text().count("~ changed") == 2


RATE = r"[\d.]+ ([kMGTP]?B|objects)/s"


@pytest.mark.system
def test_a_folder_shows_objects_bytes_and_rate(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "files" / "more").mkdir(parents=True)
    for name in ("a", "b", "more/c"):
        (tmp_path / "files" / name).write_bytes(bytes(1500))
    words = ("put", "-r", str(tmp_path / "files"), scene.uri("main", "raw"))
    seen = on_terminal(*words, command=AT_ONCE)
    assert re.search(rf"copying.*3 of 3 objects, 4.5 kB of 4.5 kB, {RATE}", seen)


def test_a_file_shows_its_bytes(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1500))
    words = ("put", str(tmp_path / "file"), scene.uri("main", "raw"))
    seen = on_terminal(*words, command=AT_ONCE)
    assert re.search(rf"copying.*1 of 1 object, 1.5 kB of 1.5 kB, {RATE}", seen)


def test_an_export_shows_objects_bytes_and_rate(scene: Scene, tmp_path: Path) -> None:
    scene.commit("main", {"a": "1" * 1500, "b": "2" * 500})
    words = ("export", scene.uri("main"), "--to", str(tmp_path / "out"))
    seen = on_terminal(*words, command=AT_ONCE)
    assert re.search(rf"exporting.*2 of 2 objects, 2.0 kB of 2.0 kB, {RATE}", seen)


@pytest.mark.system
def test_a_collection_shows_objects_bytes_and_rate(scene: Scene) -> None:
    scene.put("main", {"a": "1" * 1500, "b": "2" * 500})
    ok("reset", "--yes", scene.uri("main"))
    words = ("gc", "run", scene.uri(), "--yes", "--grace", "0m")
    seen = on_terminal(*words, command=AT_ONCE)
    assert re.search(rf"collecting garbage.*2 of 2 objects, 2.0 kB of 2.0 kB, {RATE}", seen)


def test_an_import_shows_objects_and_rate(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_text("1")
    words = ("import", scene.uri("main", ""), "--from", str(tmp_path / "files"), "-m", "x")
    assert re.search(rf"importing.*1 object, {RATE}", on_terminal(*words, command=AT_ONCE))


def test_the_remaining_time_follows_from_rate_and_total() -> None:
    count = Count(objects=1, size=500, total=Amount(4, 2000), began=monotonic() - 10)
    bar = count_bar()
    task = bar.add_task("copying", total=2000, completed=500, count=count)
    shown = _CountColumn().render(bar.tasks[task]).plain
    assert re.fullmatch(r"1 of 4 objects, 500 B of 2.0 kB, 4\d B/s, 0:00:3\d left", shown)


@pytest.mark.system
def test_a_pipe_sees_no_objects(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_text("1")
    for words in (
        ["put", "-r", str(tmp_path / "files"), scene.uri("main", "raw")],
        ["export", scene.uri("main"), "--to", str(tmp_path / "out")],
        ["gc", "run", scene.uri(), "--yes"],
    ):
        ran = subprocess.run([*AT_ONCE, *words], capture_output=True, text=True, check=True)
        assert "objects," not in ran.stderr
        assert "\x1b" not in ran.stderr


@pytest.mark.system
def test_a_quick_command_says_nothing_of_it(diverged: Scene) -> None:
    seen = on_terminal("diff", diverged.uri("main"), diverged.uri("dev"), command=NEVER)
    assert "~ changed" in seen
    assert "comparing" not in seen
    assert "ranges" not in seen


@pytest.mark.system
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
        bar, _ = meter._shown
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (2, 3)
        meter.hide()
        assert bar.finished is False
        assert not bar.live.is_started
        meter.advance(1)
    assert meter._shown is None
