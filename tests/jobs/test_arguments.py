"""A job takes the arguments of its command, and every command but a few is a job."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import sparklake
from sparklake.cli.app import app

NOUNS = {
    "repo": ("repository", "repositories"),
    "branch": ("branch", "branches"),
    "op": ("operation", "operations"),
    "refs": ("refs", "refs"),
    "protect": ("protection", "protections"),
}
NAMES = {
    "import": "import_objects",
    "merge-base": "merge_base",
    "cherry-pick": "cherry_pick",
    "hard-reset": "hard_reset",
    "writes": "list_writes",
    "abandon-write": "abandon_write",
    "diff-table": "diff_table",
}

INNER_NAMES = {
    "hooks runs": "list_hook_runs",
    "hooks show": "show_hook_run",
    "gc run": "collect_garbage",
    "gc list": "list_garbage",
    "gc rules set": "set_retention",
    "gc rules show": "show_retention",
    "gc rules clear": "clear_retention",
}

NOT_JOBS = {"quickstart", "cache", "hooks validate", "jobs"}
ONLY_OF_COMMANDS = {("--output",)}

MODULES = {path.stem for path in (Path(sparklake.__file__).parent / "jobs").glob("[a-z]*.py")}
JOBS = sorted(MODULES - {"job"})


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the commands, under the names that they have as jobs."""
    root: Any = get_command(app)
    for name, command in root.commands.items():
        if name in NOT_JOBS:
            continue
        one, many = NOUNS.get(name, (name, f"{name}s"))
        for whole, inner in leaves(name, command):
            verb = whole.split()[-1]
            if whole not in NOT_JOBS:
                called = f"{verb}_{many if verb in ('list', 'log') else one}"
                yield INNER_NAMES.get(whole, called), inner
        if not hasattr(command, "commands"):
            yield NAMES.get(name, name), command


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the commands below another one, with all their words."""
    for verb, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield from leaves(f"{name} {verb}", inner)
        else:
            yield f"{name} {verb}", inner


COMMANDS = dict(commands())


def parser_of(name: str, monkeypatch: pytest.MonkeyPatch) -> ArgumentParser:
    module, made = import_module(f"sparklake.jobs.{name}"), []

    def run(parser: ArgumentParser, verb: object, argv: Sequence[str] | None) -> int:
        made.append(parser)
        return 0

    monkeypatch.setattr(module, "run", run)
    module.main([])
    return made[0]


def test_every_command_is_a_job() -> None:
    assert COMMANDS.keys() == set(JOBS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_job_takes_what_its_command_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    actions = parser_of(name, monkeypatch)._actions
    options = {
        tuple(sorted(each.option_strings)): (each.required, each.nargs == 0)
        for each in actions
        if each.option_strings and each.dest != "help"
    }
    expected = {
        tuple(sorted(each.opts)): (each.required, bool(each.is_flag))
        for each in COMMANDS[name].params
        if each.param_type_name == "option"
    }
    assert options.keys() <= expected.keys()
    assert expected.keys() - options.keys() == ONLY_OF_COMMANDS
    for words in options.keys() & expected.keys():
        assert options[words] == expected[words], words
    positionals = [each.required for each in actions if not each.option_strings]
    assert positionals == [
        each.required for each in COMMANDS[name].params if each.param_type_name == "argument"
    ]


@pytest.mark.parametrize("name", JOBS)
def test_wrong_usage_is_2(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        import_module(f"sparklake.jobs.{name}").main(["--no-such-option"])
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        *(["log", "lakefs://lake/main", "--amount", each] for each in ("0", "-1", "x")),
        ["log", "lakefs://lake/main", "--amoun", "1"],
        ["commit", "-m", "what"],
        ["create_branch", "lakefs://lake/x"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--strategy", "ours"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a="],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "=none"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a=ours"],
        ["merge", "lakefs://lake/a", "lakefs://lake/b", "--rule", "a**=none"],
        ["revert", "lakefs://lake/a"],
        ["revert", "lakefs://lake/a", "lakefs://lake/b", "--parent-number", "0"],
        ["cherry_pick", "lakefs://lake/a", "lakefs://lake/b", "--strategy", "ours"],
        ["list_repositories", "--engine", "dask"],
        ["stat"],
    ],
    ids=" ".join,
)
def test_what_is_wrong_for_the_command_is_wrong_for_the_job(words: list[str]) -> None:
    name, *arguments = words
    with pytest.raises(SystemExit) as end:
        import_module(f"sparklake.jobs.{name}").main(arguments)
    assert end.value.code == 2
