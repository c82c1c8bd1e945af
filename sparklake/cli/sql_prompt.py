"""The prompt of `sparklake sql`: statements typed on a terminal, with history and completion."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.errors import SparklakeError
from sparklake.session import quoted
from sparklake.sql.ref_statements import FORMS
from sparklake.sql.tokens import CATALOG

if TYPE_CHECKING:
    from sparklake.lake import Lake
    from sparklake.repository import Repository
    from sparklake.sql.session import SqlSession

_PROMPT, _CONTINUED = "sql> ", "  -> "
_ENDS = ("exit", "quit")
_HISTORY_LINES = 1000
_MAX_NAMES = 200
_DELIMITERS = " \t\n(),;="
_WORDS = sorted(
    {
        *(word for form in FORMS for word in (*form.words, *form.clauses)),
        *("USE", "SELECT", "WHERE", "GROUP BY", "ORDER BY", "JOIN", "INSERT INTO", "UPDATE"),
        *("DELETE FROM", "CREATE TABLE", "DROP TABLE", "DESCRIBE TABLE", "VALUES", "exit"),
    }
)


def typed_statements(lake: Lake, session: SqlSession, history: Path) -> Iterator[str]:
    """Yield the typed texts until Ctrl-D or `exit`. A semicolon at the end of a line ends each."""
    with _line_editing(lake, session, history):
        text = ""
        while True:
            try:
                text += input(_CONTINUED if text else _PROMPT) + "\n"
            except EOFError:
                return
            if text.strip(" \n;").lower() in _ENDS:
                return
            if not text.strip() or text.rstrip().endswith(";"):
                yield text
                text = ""


@contextmanager
def _line_editing(lake: Lake, session: SqlSession, history: Path) -> Iterator[None]:
    try:
        import readline
    except ImportError:  # A Python without it has a plain prompt.
        yield
        return

    def complete(text: str, state: int) -> str | None:
        try:
            return next(islice(candidates(lake, session, text), state, None), None)
        except SparklakeError:
            return None  # An unknown name has no candidates.

    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(complete)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.set_history_length(_HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield
    finally:
        readline.set_completer(None)
        # Without a home, as with a DSN, there is no history.
        with suppress(OSError):
            os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.write_history_file(history)


def candidates(lake: Lake, session: SqlSession, text: str) -> Iterator[str]:
    """Yield the words and names that start with a text, such as `lakefs.lake.ma`."""
    parts, start = _parts(text)
    if len(parts) == 1:
        yield from (each for each in _WORDS if each.startswith(text.upper()) or each == text)
        if f"{CATALOG}.".startswith(text.lower()):
            yield f"{CATALOG}."
        if session.place is not None:
            repository = lake.repository(session.place.repository)
            yield from _spelled("", _refs(repository, parts[0]))
            yield from _tables(repository, session.place.ref, parts[0])
    elif parts[0].lower() == CATALOG:
        before, last = text[:start], parts[-1]
        if len(parts) == 2:
            names = (each.name for each in lake.repositories())
            yield from _spelled(before, (each for each in names if each.startswith(last)))
        elif len(parts) == 3:
            yield from _spelled(before, _refs(lake.repository(parts[1]), last))
        elif len(parts) == 4:
            tables = _tables(lake.repository(parts[1]), parts[2], last)
            yield from (before + each for each in tables)


def _parts(text: str) -> tuple[list[str], int]:
    """Return the parts of a name, without backquotes, and where the last one starts."""
    parts, start, is_quoted = [""], 0, False
    for at, each in enumerate(text):
        if each == "`":
            is_quoted = not is_quoted
        elif each == "." and not is_quoted:
            parts.append("")
            start = at + 1
        else:
            parts[-1] += each
    return parts, start


def _spelled(before: str, names: Iterable[str]) -> Iterator[str]:
    for each in names:
        yield before + (each if re.fullmatch(r"\w+", each) else quoted(each))


def _refs(repository: Repository, start: str) -> Iterator[str]:
    branches = (each.name for each in repository.branch_states())
    names = chain(branches, (each.name for each in repository.tags()))
    return (each for each in names if each.startswith(start))


def _tables(repository: Repository, ref: str, start: str) -> Iterator[str]:
    """Yield the folders below a path, as names of tables and as starts of longer names."""
    for each in islice(repository.folder(ref, start), _MAX_NAMES):
        if each.path.endswith("/"):
            yield from _spelled("", [each.path.rstrip("/")])
            yield f"`{each.path}"
