"""Shell hooks: commands of this machine."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sparklake.graveler.ports.registers import HookStatus
from sparklake.hooks.commands import run_command
from sparklake.hooks.events import HookOutcome
from sparklake.hooks.properties import ShellHook
from sparklake.hooks.secrets import MAX_OUTPUT, Secrets

LONG = "Ü" * 30_000
DOCUMENT = {"event_type": "pre-merge", "commit_metadata": {"a": "b"}, "commit_message": LONG}


def run(*words: str, env: tuple[str, ...] = (), **options: Any) -> HookOutcome:
    return run_command(ShellHook(list(words), **options), DOCUMENT, Secrets(env))


def script(text: str, **options: Any) -> HookOutcome:
    return run_command(ShellHook(text, shell=True, **options), DOCUMENT, Secrets(()))


def test_a_command_gets_the_event_on_stdin_and_in_the_environment(tmp_path: Path) -> None:
    report = tmp_path / "told"
    code = (
        "import json, os, sys; open(sys.argv[1], 'w').write(json.dumps([json.load(sys.stdin), "
        "{k: v for k, v in os.environ.items() if k.startswith('SPARKLAKE')}, os.listdir('.')]))"
    )
    assert run(sys.executable, "-c", code, str(report)) == HookOutcome(HookStatus.PASSED)
    document, variables, around = json.loads(report.read_text())
    assert document == DOCUMENT
    assert variables == {
        "SPARKLAKE_HOOK_EVENT_TYPE": "pre-merge",
        "SPARKLAKE_HOOK_COMMIT_MESSAGE": LONG,
    }
    assert around == []


def test_a_list_of_words_is_not_run_by_a_shell() -> None:
    assert run("echo", "$HOME; false", "a  b").output == "$HOME; false a  b\n"
    assert script("echo a  b; exit 0").output == "a b\n"


def test_a_command_may_ignore_its_stdin() -> None:
    assert run("true").status is HookStatus.PASSED


def test_a_nonzero_exit_code_fails_the_hook() -> None:
    assert script("echo too few rows >&2; exit 3") == HookOutcome(
        HookStatus.FAILED, "too few rows\n\nexit code 3"
    )


@pytest.mark.parametrize("word", ["no-such-command", "/", "./here"])
def test_a_command_that_cannot_run_fails_the_hook(word: str) -> None:
    outcome = run(word)
    assert outcome.status is HookStatus.FAILED
    assert f"{word!r} cannot be run: " in outcome.output


def test_a_command_gets_only_allowed_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "never")
    monkeypatch.setenv("HOOK_KEY", "s3cret")
    command = "echo $HOOK_KEY. $PGPASSWORD."
    assert script(command).output == ". .\n"
    assert run("/bin/sh", "-c", command, env=("HOOK_*",)).output == "***. .\n"


def test_a_command_is_killed_with_its_children_after_its_timeout(tmp_path: Path) -> None:
    number = tmp_path / "pid"
    outcome = script(f"echo begun; sleep 60 & echo $! > {number}; wait", timeout="500ms")
    assert outcome == HookOutcome(HookStatus.FAILED, "begun\n\nnot finished after 0.5 seconds")
    status = Path(f"/proc/{number.read_text().strip()}/stat")

    def is_gone() -> bool:
        # What was killed may still wait for who is to be told of it.
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"

    end = time.monotonic() + 10
    while not is_gone() and time.monotonic() < end:
        time.sleep(0.05)
    assert is_gone()


def test_a_background_process_is_not_waited_for() -> None:
    outcome = script("sleep 60 & echo $!", timeout="30s")
    assert outcome.status is HookStatus.PASSED
    os.kill(int(outcome.output), 9)


def test_only_the_end_of_long_output_is_kept() -> None:
    outcome = script("yes | head -c 10000000; echo; echo the end; exit 1")
    assert outcome.output.endswith("\nthe end\n\nexit code 1")
    assert len(outcome.output) <= MAX_OUTPUT + 20


def test_output_is_made_valid_text() -> None:
    assert (
        script(r"printf 'a\000b\377'").output
        == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    )


def test_a_truncated_secret_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_KEY", "k" * 50)
    secrets = Secrets(("HOOK_KEY",))
    secrets.variables()
    assert "k" not in secrets.kept("k" * 30 + "." * 100 + "k" * 20, is_cut=True)
