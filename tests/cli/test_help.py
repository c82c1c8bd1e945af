"""The help of all commands is short: a list of commands or options can be scanned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from sparklake.cli.app import app
from sparklake.cli.main import main
from tests.support.cases import for_each

if TYPE_CHECKING:
    import pytest

MOST_CHARACTERS = 60


def commands(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """Yield a command and all commands below it."""
    yield " ".join(path) or "sparklake", command
    for name in getattr(command, "commands", ()):
        yield from commands(command.commands[name], *path, name)


COMMANDS = dict(commands(get_command(app)))


def test_every_command_is_checked() -> None:
    assert {"sparklake", "merge", "gc rules set", "refs restore"} <= COMMANDS.keys()


@for_each("name", COMMANDS)
def test_help_is_plain_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [] if name == "sparklake" else name.split()
    assert main([*words, "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: ")


@for_each("name", COMMANDS)
def test_the_first_line_of_a_command_is_short(name: str) -> None:
    first, *rest = COMMANDS[name].help.split("\n")
    assert first.endswith(".")
    assert len(first) <= MOST_CHARACTERS
    assert rest[:1] in ([], [""])


@for_each("name", COMMANDS)
def test_the_first_sentence_of_an_option_is_short(name: str) -> None:
    for each in COMMANDS[name].params:
        text = getattr(each, "help", None)
        if text:
            first, _, _ = text.partition(". ")
            assert len(first) <= MOST_CHARACTERS, text
            assert text.endswith("."), text
