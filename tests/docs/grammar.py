"""The commands of fences that do not run, against the grammar."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile, groupby
from typing import Any

from typer.main import get_command

from sparklake.cli.app import app

_ENDS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


def wrong_commands(text: str) -> Iterator[str]:
    """Yield what the grammar rejects of a shell fence's `sparklake` commands."""
    for line in text.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line.replace(";", " ; "), comments=True)
        except ValueError:
            continue  # A text of several lines.
        for is_end, group in groupby(words, key=_ENDS.__contains__):
            command = list(dropwhile(_ASSIGNMENT.fullmatch, group))
            if not is_end and command[:1] == ["sparklake"]:
                problem = _problem(command[1:])
                if problem is not None:
                    yield f"`{line.strip()}`: {problem}"


def _problem(arguments: list[str]) -> str | None:
    command: Any = get_command(app)
    name, context = "sparklake", None
    try:
        while True:
            context = command.make_context(name, list(arguments), parent=context)
            rest = [*getattr(context, "_protected_args", ()), *context.args]
            if not rest or not hasattr(command, "resolve_command"):
                return None
            name, command, arguments = command.resolve_command(context, rest)
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        return str(message())
