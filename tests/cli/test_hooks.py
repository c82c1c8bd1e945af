"""`sparklake hooks`, and what a hook says to who commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Scene, failed, ok, run, said
from tests.jobs.running import job

FILE = "_sparklake/hooks/guard.yaml"
GUARD = """
on: {pre-commit: {branches: [main]}, post-commit: }
hooks:
  - id: rows
    type: shell
    properties: {command: [sh, -c, 'echo too few rows; exit %d']}
"""


@pytest.fixture
def guarded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Is a repository whose main refuses commits, and where other branches only complain."""
    monkeypatch.setenv("SPARKLAKE_HOOKS_ALLOW", "shell:sh")
    scene.commit("main", {FILE: GUARD % 1, "a": "1"})
    return scene


def test_a_refusal_has_a_code_of_its_own_and_names_its_run(guarded: Scene) -> None:
    guarded.put("main", {"a": "2"})
    ran = run("--output", "json", "commit", guarded.uri("main"), "-m", "try")
    assert ran.code == 6
    assert ran.json["kind"] == "hook_failed"
    assert "too few rows" in ran.json["error"]
    text = run("commit", guarded.uri("main"), "-m", "try")
    assert (text.code, text.out) == (6, b"")
    assert f"error: the hook 'rows' of {FILE} failed on pre-commit of 'main'" in text.err
    (_, first) = said("hooks", "runs", guarded.uri())
    assert first["id"] == ran.json["run_id"]
    shown = said("hooks", "show", guarded.uri(), first["id"])
    assert shown == first
    assert shown["hooks"][0]["output"] == "too few rows\n\nexit code 1"
    printed = ok("hooks", "show", guarded.uri(), first["id"])
    assert printed.startswith("pre-commit of main: failed\n")
    assert f"failed rows (shell) of {FILE}, " in printed
    assert "    too few rows\n" in printed


def test_what_fails_afterwards_is_a_warning(
    guarded: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    guarded.branch("dev")
    caplog.clear()
    guarded.commit("dev", {"a": "2"})
    assert "commit of 'dev' succeeded, but: " in caplog.text
    (run_of_dev,) = said("hooks", "runs", guarded.uri("dev"), "--amount", "5")
    assert (run_of_dev["event"], run_of_dev["status"]) == ("post-commit", "failed")
    assert "post-commit" in ok("hooks", "runs", guarded.uri("dev"))


def test_what_is_not_allowed_here(guarded: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARKLAKE_HOOKS_ALLOW")
    guarded.put("main", {"a": "2"})
    ran = run("--output", "json", "commit", guarded.uri("main"), "-m", "try")
    assert (ran.code, ran.json["kind"]) == (6, "hook_not_allowed")
    assert "SPARKLAKE_HOOKS_ALLOW" in ran.json["error"]
    monkeypatch.setenv("SPARKLAKE_HOOKS_SKIP", "shell")
    ok("commit", guarded.uri("main"), "-m", "pass over")
    monkeypatch.setenv("SPARKLAKE_HOOKS_SKIP", "shel")
    assert "'shel' is not a hook type" in failed(2, "commit", guarded.uri("main"), "-m", "try")


def test_the_jobs_say_the_same(guarded: Scene) -> None:
    guarded.put("main", {"a": "2"})
    run("commit", guarded.uri("main"), "-m", "try")
    runs = said("hooks", "runs", guarded.uri("main"))
    assert job(0, "hooks runs", guarded.uri("main"), "--amount", "3") == runs
    assert job(0, "hooks show", guarded.uri(), runs[0]["id"]) == runs[0]


def test_no_such_run(scene: Scene) -> None:
    assert ok("hooks", "runs", scene.uri()).split() == [
        *("date", "event", "ref", "who", "status", "hooks", "run")
    ]
    assert "no hook run" in failed(13, "hooks", "show", scene.uri(), "0" * 32)


def test_files_are_checked_before_they_are_committed(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GUARD % 1)
    bad.write_text("on: {pre-commit: }\nhooks:\n  - id: a\n    type: exe\n")
    (document,) = said("hooks", "validate", str(good))
    assert document == {
        "file": str(good),
        "name": "good",
        "on": {"pre-commit": ["main"], "post-commit": []},
        "hooks": {"rows": "shell"},
    }
    assert ok("hooks", "validate", str(good)) == f"{good}: pre-commit, post-commit: rows\n"
    assert f"{bad}: line 4: hooks[0].type: " in failed(2, "hooks", "validate", str(good), str(bad))
    assert "cannot read" in failed(2, "hooks", "validate", str(tmp_path / "none.yaml"))
    bad.write_text("no mapping")
    assert "a hook file is a YAML mapping" in failed(2, "hooks", "validate", str(bad))
