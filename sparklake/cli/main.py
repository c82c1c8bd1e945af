"""The entry point of the `sparklake` command."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from typer.main import get_command

from sparklake.cli.app import HELP_NAMES, app
from sparklake.cli.completion.scripts import INSTRUCTION
from sparklake.cli.light_commands import lighten
from sparklake.errors import InterruptError, InvalidInputError

_GC_THRESHOLD = 50_000
"""The number of new objects after which Python looks for cycles; 700 by default."""


def main(argv: Sequence[str] | None = None) -> int:
    if argv is not None:
        return run(argv, {}, program="sparklake")
    # Imports make 90,000 objects that stay. The search for cycles among them, again and again and
    # at the exit, took a fifth of the CPU time of a small command.
    gc.set_threshold(_GC_THRESHOLD)
    try:
        if os.environ.get(INSTRUCTION):
            # Lazy import: only shells need it.
            from sparklake.cli.completion.answers import answer_shell

            return answer_shell(_grammar())
        return run(argv, {}, program="sparklake")
    finally:
        gc.freeze()


def run(
    argv: Sequence[str] | None,
    options: Mapping[str, Any],
    program: str | None = None,
    grammar: Any = None,
) -> int:
    """Run one command; return its exit code.

    `options` are fields of `Options` that the arguments do not set. `argv` None means the
    arguments of the process, and `program` None its file name.
    """
    for stream in (sys.stdout, sys.stderr):
        # Object names may have characters that the terminal cannot encode.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        (_grammar() if grammar is None else grammar)(
            args=None if argv is None else list(argv),
            prog_name=program,
            help_option_names=HELP_NAMES,
            obj={**options, "owns_process": argv is None},
        )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        print(f"error: {InterruptError()}", file=sys.stderr)  # noqa: T201
        return InterruptError.exit_code
    return 0


def option_names(words: Sequence[str]) -> frozenset[str]:
    try:
        target = _command(words)
    except (AttributeError, KeyError):
        target = None
    if target is None or hasattr(target, "commands"):
        raise InvalidInputError(
            f"there is no command {' '.join(words)!r}: `sparklake --help` lists the commands"
        )
    return frozenset(name for each in target.params for name in each.opts)


def _command(words: Sequence[str]) -> Any:
    target = _grammar()
    for word in words:
        target = target.commands[word]
    return target


@cache
def _grammar() -> Any:
    built = get_command(app)
    lighten(built)
    return built
