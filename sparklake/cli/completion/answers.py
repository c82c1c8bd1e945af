"""The answer to a shell: candidates for the word at the cursor."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Timer
from typing import Any

# Typer has no public name for click's parser of incomplete command lines.
from typer._completion_classes import ZshComplete

from sparklake.cli.completion.names import WORDS, Candidate
from sparklake.cli.completion.scripts import BASH_WORD, INSTRUCTION

DEADLINE_SECONDS = 2.0
"""The time after which a shell gets no candidates, such as from an unreachable Postgres."""

_LINE = "_TYPER_COMPLETE_ARGS"
_SPECIAL = re.compile(r"([^\w@%+=:,./~^-])")
_SPECIAL_IN = {"'": frozenset("'"), '"': frozenset('"$`\\!')}
"""The characters that bash would interpret in quotes. A path with `$(...)` would run a command."""

_ESCAPED = re.compile(r"\\(.)")


def answer_shell(grammar: Any) -> int:
    """Print the candidates for the command line in the environment, or nothing on an error."""
    late = Timer(DEADLINE_SECONDS, os._exit, [0])
    late.daemon = True
    late.start()
    # Anything on the screen would disturb the user's prompt.
    with suppress(Exception, SystemExit):
        lines = list(_lines(os.environ[INSTRUCTION], _candidates(grammar)))
        late.cancel()
        sys.stdout.write("".join(f"{each}\n" for each in lines))
        sys.stdout.flush()
    late.cancel()
    return 0


def _candidates(grammar: Any) -> tuple[str, list[Candidate]]:
    context: dict[str, Any] = {}
    parser = ZshComplete(grammar, {"obj": context}, "sparklake", INSTRUCTION)
    arguments, word = parser.get_completion_args()
    context[WORDS] = tuple(arguments)
    # The parser completes the value of --option=value.
    option, equals, _ = word.partition("=")
    before = option + equals if equals and word.startswith("-") else ""
    candidates = (
        Candidate(f"{before}{each.value}", each.help)
        for each in parser.get_completions(arguments, word)
        # Shells complete names of files themselves.
        if each.type == "plain"
    )
    return word, [each for each in candidates if each.value.isprintable()]


def _lines(shell: str, completion: tuple[str, list[Candidate]]) -> Iterable[str]:
    word, candidates = completion
    if shell == "bash":
        return _for_bash(word, candidates)
    return (
        f"{each.value}\t{' '.join(each.help.split())}" if each.help else each.value
        for each in candidates
    )


def _for_bash(word: str, candidates: Iterable[Candidate]) -> Iterator[str]:
    """Yield replacements of a word's last part.

    Bash breaks unquoted words at ':' and '=', and replaces only the last part. In quotes, values
    with special characters are omitted.
    """
    line, part = os.environ[_LINE], os.environ[BASH_WORD]
    before = line.removesuffix(part)
    quote = before[-1:] if before.endswith(tuple(_SPECIAL_IN)) else ""
    plain = part if quote else _ESCAPED.sub(r"\1", part)
    start = len(word.removesuffix(plain)) if plain else len(word)
    for each in candidates:
        rest = each.value[start:]
        if not quote:
            yield _SPECIAL.sub(r"\\\1", rest)
        elif not _SPECIAL_IN[quote].intersection(rest):
            yield rest
