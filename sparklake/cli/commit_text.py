"""The text form of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparklake.cli.output import Output
from sparklake.cli.text import date, first_line, one_line, short
from sparklake.documents import commit_document

if TYPE_CHECKING:
    from sparklake.cli.invocation import Invocation
    from sparklake.graveler.commits import Commit


def print_commit(out: Output, branch: str, commit: Commit) -> None:
    out.one(commit_document(commit), commit_line(out, branch, commit))


def print_commits(out: Output, branch: str, commits: Sequence[Commit]) -> None:
    lines = iter([commit_line(out, branch, each) for each in commits])
    out.many(map(commit_document, commits), lambda _: next(lines))


def note_staged(invocation: Invocation, *uris: str, done: str) -> None:
    """Print a note for each branch with staged changes, which are ignored."""
    for uri in dict.fromkeys(uris):
        if invocation.is_dirty(uri):
            invocation.out.note(
                f"the staged changes of {uri} are not {done}: `sparklake diff {uri}` shows them"
            )


def commit_line(out: Output, branch: str, commit: Commit) -> str:
    commit_id = out.coloured(short(commit.id), "yellow")
    line = f"[{out.coloured(branch, 'green')} {commit_id}] {subject(commit)}"
    # Lazy import: --help does not need it.
    from sparklake.graveler.commits import DROPPED_METADATA_KEY, WINNERS_METADATA_KEY

    # Commits of the other side were dropped: always report that.
    for name, key in (
        ("resolved as a whole", WINNERS_METADATA_KEY),
        ("dropped", DROPPED_METADATA_KEY),
    ):
        text = commit.metadata.get(key)
        line += "" if text is None else f"\n    {name}: {one_line(text)}"
    return line


def subject(commit: Commit) -> str:
    return first_line(commit.message)


def commit_lines(commit: Commit) -> list[str]:
    """Return the lines below a commit's subject."""
    who = f"{one_line(commit.committer)}, " if commit.committer else ""
    lines = [f"{who}{date(commit.creation_date)}"]
    if commit.metadata:
        pairs = (f"{one_line(name)}={one_line(value)}" for name, value in commit.metadata.items())
        lines.append(", ".join(pairs))
    return [*lines, *map(one_line, commit.message.strip().splitlines()[1:])]
