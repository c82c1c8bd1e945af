"""The option --result-file: the JSON result in a file, complete or not there."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparklake.cli.options import Format
from sparklake.cli.output import Output
from tests.cli.running import Scene, failed, ok, run, said
from tests.jobs.running import run as run_job


def content(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "result.json"


@pytest.mark.parametrize("output", ["text", "json", "jsonl"])
def test_a_result_is_one_line(scene: Scene, file: Path, output: str) -> None:
    scene.put("main", {"a": "1"})
    words = ("commit", scene.uri("main"), "-m", "x", "--output", output)
    shown = ok(*words, "--result-file", str(file))
    assert content(file) == said("log", scene.uri("main"))[0]
    assert len(file.read_text().splitlines()) == 1
    if output != "text":
        assert json.loads(shown) == content(file)


@pytest.mark.parametrize("output", ["text", "json", "jsonl"])
def test_a_listing_is_a_list(scene: Scene, file: Path, output: str) -> None:
    scene.commit("main", {"a": "1", "b": "2"})
    plain = ok("--output", output, "ls", "-r", scene.uri("main"))
    assert (
        ok("--output", output, "--result-file", str(file), "ls", "-r", scene.uri("main")) == plain
    )
    assert content(file) == said("ls", "-r", scene.uri("main"))
    ok("--output", output, "branch", "list", scene.uri(), "--result-file", str(file))
    assert content(file) == said("branch", "list", scene.uri())
    ok("--output", output, "tag", "list", scene.uri(), "--result-file", str(file))
    assert content(file) == []


@pytest.mark.parametrize("output", ["text", "json"])
def test_an_error_is_a_result_too(scene: Scene, file: Path, output: str) -> None:
    dev, main = scene.diverge()
    words = ("merge", dev, main, "--output", output, "--result-file", str(file))
    assert run(*words).code == 3
    assert content(file)["kind"] == "merge_conflict"
    assert content(file)["count"] == 1
    assert run(*words, "--dry-run").code == 0
    assert len(content(file)["conflicts"]) == 1


def test_an_error_in_a_listing_replaces_it(file: Path) -> None:
    out = Output(Format.JSON)
    out.save_to(file)
    with out.ending():
        rows = out._file.listing(iter([{"a": 1}, {"a": 2}]))  # type: ignore[union-attr]
        assert next(rows) == {"a": 1}
    assert not file.exists()
    assert list(file.parent.iterdir()) == []


def test_only_a_regular_file_is_replaced(scene: Scene, tmp_path: Path) -> None:
    """A FIFO or device was deleted, and a planted FILE.part was followed."""
    scene.put("main", {"a": "1"})
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    before = {each.name: each.lstat().st_mode for each in tmp_path.iterdir()}
    names = ("fifo", "folder", "link", "dangling")
    for target in [*(str(tmp_path / name) for name in names), "/dev/null", "/"]:
        error = failed(2, "commit", scene.uri("main"), "-m", "x", "--result-file", target)
        assert "is not a regular file" in error
    assert {each.name: each.lstat().st_mode for each in tmp_path.iterdir()} == before
    assert stat.S_ISCHR(os.lstat("/dev/null").st_mode)
    (tmp_path / "result.part").symlink_to(victim)
    ok("branch", "list", scene.uri(), "--result-file", str(tmp_path / "result"))
    assert content(tmp_path / "result")[0]["dirty"]
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_stdout_gets_the_result_at_the_end(scene: Scene, name: str) -> None:
    plain = ok("branch", "list", scene.uri())
    shown = ok("branch", "list", scene.uri(), "--result-file", name)
    assert shown.startswith(plain)
    assert json.loads(shown.removeprefix(plain)) == said("branch", "list", scene.uri())


def test_an_open_descriptor_gets_the_result(scene: Scene) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader) as read, os.fdopen(writer, "w") as write:
        ok("branch", "list", scene.uri(), "--result-file", f"/dev/fd/{writer}")
        write.close()
        assert json.load(read) == said("branch", "list", scene.uri())
    assert "Bad file descriptor" in failed(
        2, "branch", "list", scene.uri(), "--result-file", "/dev/fd/987654"
    )


def test_a_descriptor_for_reading_stops_the_command_before_it_acts(scene: Scene) -> None:
    scene.put("main", {"a": "1"})
    with Path(os.devnull).open() as nowhere:
        file = f"/dev/fd/{nowhere.fileno()}"
        error = failed(2, "commit", scene.uri("main"), "-m", "x", "--result-file", file)
    assert "open for reading only" in error
    assert said("branch", "list", scene.uri())[0]["dirty"]


def test_bytes_are_no_result(scene: Scene, file: Path) -> None:
    scene.put("main", {"a": "1"})
    assert ok("cat", scene.uri("main", "a"), "--result-file", str(file)) == "1"
    assert content(file) is None


def test_a_file_in_no_folder_stops_the_command_before_it_acts(scene: Scene, tmp_path: Path) -> None:
    scene.put("main", {"a": "1"})
    words = ("commit", scene.uri("main"), "-m", "x", "--output", "json")
    ran = run(*words, "--result-file", str(tmp_path / "none" / "result"))
    assert (ran.code, ran.json["kind"]) == (2, "invalid_input")
    assert "cannot be written: No such file or directory" in ran.json["error"]
    assert said("branch", "list", scene.uri())[0]["dirty"]


def test_a_killed_command_leaves_no_result_and_no_older_one(scene: Scene, file: Path) -> None:
    file.write_text('{"older": true}')
    die = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    code = f"""
import sys
from sparklake.cli import main, commits
from sparklake.cli.invocation import Invocation
def die(*given):
    {die}
Invocation.repository = die
sys.exit(main.main())
"""
    words = [sys.executable, "-c", code, "commit", scene.uri("main"), "-m", "x"]
    done = subprocess.run([*words, "--result-file", str(file)], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert not file.exists()


def test_a_job_prints_one_line_and_logs_two(scene: Scene) -> None:
    scene.put("main", {"a": "1"})
    ran = run_job("commit", scene.uri("main"), "-m", "x", "--meta", "token=secret")
    assert ran.code == 0
    assert len(ran.text.splitlines()) == 1
    assert ran.json["metadata"] == {"token": "secret"}
    first, last = ran.err.splitlines()
    assert f" INFO sparklake.jobs: commit {scene.uri('main')}: started" in first
    assert f" INFO sparklake.jobs: commit {scene.uri('main')}: ended after " in last
    assert last.endswith(", exit code 0")
    assert "secret" not in ran.err
    again = run_job("commit", scene.uri("main"), "-m", "x")
    assert (again.code, again.json["kind"]) == (4, "no_changes")
    assert again.err.splitlines()[-1].endswith(", exit code 4")


def test_a_command_logs_nothing(scene: Scene) -> None:
    assert run("log", scene.uri("main"), "--output", "json").err == ""
