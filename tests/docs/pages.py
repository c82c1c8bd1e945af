"""The snippets of a page of documentation, as steps that run in order.

A comment before a fence says what the harness does with it; CONTRIBUTING.md lists the comments.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.docs.grammar import wrong_commands

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    each.relative_to(ROOT).as_posix() for each in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
)

RUN = frozenset({"sh", "python", "sql"})
"""The languages of fences that run."""

DATA = frozenset({"toml", "yaml", "json", "ini", "properties", "text", "csv"})
"""The languages of fences that are files, or outputs of the fence before them."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\s`]*)(?P<more>[^`\n]*)$")
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_WORDS = re.compile(
    r"(?P<word>not run|setup python|setup|where|exits with|raises|output|file|needs)\b:?\s*"
    r"(?P<value>.*)",
    re.DOTALL,
)
_NAMED_FILE = re.compile(r"^(?:#|//)\s*(\S+/\S+|\S+\.\w+)\s*$")


class Kind(Enum):
    """An action of the harness."""

    SHELL = "sh"
    PYTHON = "python"
    SQL = "sql"
    FILE = "file"
    OUTPUT = "output"
    WHERE = "where"


@dataclass(frozen=True, slots=True)
class Step:
    """A snippet, or a hidden step of the set-up.

    `argument` is the path of a file, the replaced name of `where`, the expected exit code of a
    shell's snippet, or the expected error of Python's. `line` is that of its first line.
    """

    kind: Kind
    text: str
    line: int
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The steps of a page, and what it needs besides a lake: `spark`, `spark 4`, `embedded`."""

    name: str
    steps: tuple[Step, ...]
    needs: frozenset[str]
    reasons: tuple[str, ...] = ()

    @property
    def submits(self) -> bool:
        """Whether it runs spark-submit, which starts a JVM each time."""
        return any("spark-submit" in each.text for each in self.steps if each.kind is Kind.SHELL)


class SnippetError(ValueError):
    """A fence or a comment that the harness does not understand."""


def read_page(name: str) -> Page:
    """Return the snippets of a page of the project."""
    return parse_page(name, (ROOT / name).read_text(encoding="utf-8"))


def parse_page(name: str, text: str) -> Page:
    """Return the snippets of a page; raise SnippetError for one that is not understood."""
    steps: list[Step] = []
    needs: set[str] = set()
    reasons: list[str] = []
    pending: dict[str, str] = {}
    for line, part in _parts(text):
        place = f"{name}:{line}"
        if isinstance(part, str):
            word, value = _comment(place, part)
            if word == "needs":
                needs |= {each.strip() for each in value.split(",")}
            elif word in {"setup", "setup python", "where"}:
                steps.append(_hidden(place, line, word, value))
            elif word:
                pending[word] = value
            continue
        if "not run" in pending:
            reasons.append(_reason(place, pending["not run"]))
            for wrong in wrong_commands(part.text) if part.language == "sh" else ():
                raise SnippetError(f"{place}: {wrong}")
        else:
            if part.language in RUN and "file" in pending:
                steps.append(Step(Kind.FILE, part.text, line, pending["file"]))
            steps.append(_step(place, line, part, pending))
        pending = {}
    if pending:
        raise SnippetError(f"{name}: no fence follows the comment {next(iter(pending))!r}")
    return Page(name, tuple(steps), frozenset(needs), tuple(reasons))


@dataclass(frozen=True, slots=True)
class _Fence:
    language: str
    text: str


def _parts(text: str) -> Iterator[tuple[int, _Fence | str]]:
    """Yield the comments outside of fences, and the fences, with their first lines."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening:
            end = next(
                (n for n in range(at + 1, len(lines)) if lines[n].strip() == "```"), len(lines)
            )
            body = textwrap.dedent("\n".join(lines[at + 1 : end]))
            yield at + 2, _Fence(opening["language"], body)
            at = end + 1
        elif "<!--" in lines[at]:
            end = next((n for n in range(at, len(lines)) if "-->" in lines[n]), len(lines) - 1)
            for found in _COMMENT.finditer("\n".join(lines[at : end + 1])):
                yield at + 1, textwrap.dedent(found[1])
            at = end + 1
        else:
            at += 1


def _comment(place: str, text: str) -> tuple[str, str]:
    found = _WORDS.fullmatch(text)
    if found is None:
        raise SnippetError(f"{place}: unknown comment {text!r}; CONTRIBUTING.md lists the known")
    return found["word"], found["value"]


def _hidden(place: str, line: int, word: str, value: str) -> Step:
    if not value:
        raise SnippetError(f"{place}: an empty {word}")
    if word == "where":
        found = re.fullmatch(r"(\S+):\s+(.+)", value, re.DOTALL)
        if found is None:
            raise SnippetError(f"{place}: write `where NAME: command`")
        return Step(Kind.WHERE, found[2], line, found[1])
    return Step(Kind.SHELL if word == "setup" else Kind.PYTHON, value, line)


def _reason(place: str, reason: str) -> str:
    if len(reason.split()) < 2:
        raise SnippetError(f"{place}: give the reason why the fence does not run")
    return reason


def _step(place: str, line: int, fence: _Fence, pending: dict[str, str]) -> Step:
    if fence.language in RUN:
        expected = pending.get("exits with", "") or pending.get("raises", "")
        return Step(Kind(fence.language), fence.text, line, expected)
    if fence.language not in DATA:
        raise SnippetError(
            f"{place}: a fence of the language {fence.language!r} cannot run: mark it with "
            "<!-- not run: REASON -->"
        )
    if "output" in pending:
        return Step(Kind.OUTPUT, fence.text, line)
    path = pending.get("file") or _named_file(fence.text)
    if not path:
        raise SnippetError(
            f"{place}: say what this is: <!-- output -->, <!-- file: PATH --> or "
            "<!-- not run: REASON -->"
        )
    return Step(Kind.FILE, fence.text, line, path)


def _named_file(text: str) -> str:
    found = _NAMED_FILE.match(text.partition("\n")[0])
    return found[1] if found else ""
