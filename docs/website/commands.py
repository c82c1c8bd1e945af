"""The reference of the command line, from the grammar of the command."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from inspect import cleandoc
from typing import Any

from typer import Context
from typer.main import get_command

from sparklake.cli.app import app

_GLOBAL = "Global options"

_BEGINNING = """\
# Command line

Every command and its options, as `sparklake COMMAND --help` prints them. As [Spark
jobs](../spark.md#jobs), they have the same options.
"""


def commands_page() -> str:
    """Return the page of all commands."""
    program: Any = get_command(app)
    context = Context(program, info_name="sparklake")
    parts = [
        _BEGINNING,
        "## Options of every command\n",
        _table(_rows(program, context, is_global=True)),
        f"{cleandoc(program.epilog)} [Errors](../errors.md) has the details.\n",
    ]
    for command, inner in commands(program, context):
        words = inner.command_path.removeprefix("sparklake ")
        depth = "##" if " " not in words else "###"
        parts += [f"{depth} {words}\n", f"{cleandoc(command.help or '')}\n"]
        if hasattr(command, "commands"):
            continue
        usage = " ".join(command.collect_usage_pieces(inner))
        parts += [f"```text\n{inner.command_path} {usage}\n```\n", _table(_rows(command, inner))]
    return "\n".join(parts)


def commands(group: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each command and group with its context, in the order of the help."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = Context(command, info_name=name, parent=context)
        yield command, inner
        if hasattr(command, "commands"):
            yield from commands(command, inner)


def _rows(command: Any, context: Any, *, is_global: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the arguments and options of a command, and what they mean."""
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record is not None and is_global == (getattr(each, "rich_help_panel", None) == _GLOBAL):
            yield record


def _table(rows: Iterator[tuple[str, str]]) -> str:
    lines = [f"| <code>{_cell(name)}</code> | {_cell(meaning)} |" for name, meaning in rows]
    head = ["| argument or option | meaning |", "|---|---|"]
    return "\n".join([*head, *lines, ""]) if lines else ""


def _cell(text: str) -> str:
    """Return a text as HTML: Markdown has no way to write a bar in the code of a table."""
    return escape(" ".join(text.split()), quote=False).replace("|", "&#124;")
