"""Ctrl-C in the middle of a merge: Spark's tasks end, and the lake is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster import Cluster, driver_environment
from benchmarks.spark import spark_environment
from tests.cli.running import Scene, said
from tests.jobs.running import job
from tests.support import endless_merge

APP = Path(endless_merge.__file__)
WAIT_SECONDS = 120


def interrupted(
    command: Sequence[str], environment: Mapping[str, str], marks: Path
) -> tuple[int, str, str]:
    """Run a program until tasks are at work, then interrupts it as a terminal does."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: any(marks.iterdir()) or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=WAIT_SECONDS)
    return process.returncode, out, err


def wait_until(condition: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def refs(scene: Scene) -> Any:
    return said("branch", "list", scene.uri()), said("log", scene.uri("main"))


def check_usable(scene: Scene, before: Any, marks: Path) -> None:
    """Check that a merge of `dev` into `main` has left no task and no trace, and can be done."""
    assert refs(scene) == before
    tasks = [int(each.name) for each in marks.iterdir()]
    assert tasks
    wait_until(lambda: not any(Path(f"/proc/{task}").exists() for task in tasks))
    expected = said("merge", scene.uri("dev"), scene.branch("copy"))
    made = said("merge", scene.uri("dev"), scene.uri("main"))
    assert made["meta_range_id"] == expected["meta_range_id"]
    assert scene.paths("main") == ["base", "dev", "main"]


@pytest.fixture
def diverged(scene: Scene) -> Scene:
    scene.commit("main", {"base": "0"})
    scene.branch("dev")
    scene.commit("dev", {"dev": "1"})
    scene.commit("main", {"main": "1"})
    return scene


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


@pytest.mark.spark
@pytest.mark.system
def test_a_command_that_runs_on_spark(diverged: Scene, marks: Path) -> None:
    before = refs(diverged)
    words = ("merge", diverged.uri("dev"), diverged.uri("main"), "--engine", "spark")
    command = [sys.executable, str(APP), str(marks), "command", *words]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, **spark_environment(), "PYTHONPATH": root}
    code, out, err = interrupted(command, environment, marks)
    assert (code, out) == (130, ""), err
    said_at_last = "error: interrupted; unfinished work changed no branch. Run the command again"
    assert said_at_last in err
    assert "Traceback" not in err
    check_usable(diverged, before, marks)


@pytest.mark.spark
@pytest.mark.system
def test_a_job_on_a_cluster(cluster: Cluster, diverged: Scene, marks: Path) -> None:
    before = refs(diverged)
    words = ("job", "merge", diverged.uri("dev"), diverged.uri("main"), "--engine", "spark")
    command = cluster.command(APP, str(marks), *words)
    code, _, err = interrupted(command, driver_environment(), marks)
    assert code == 130, err
    check_usable(diverged, before, marks)


def test_a_job_says_that_it_was_interrupted(
    diverged: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("sparklake.verbs.merges.merge.merge", interrupt)
    failure = job(130, "merge", diverged.uri("dev"), diverged.uri("main"))
    assert failure["kind"] == "interrupted"
