"""A repository with one Delta table and two branches, for merges of tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparklake import Branch, Commit, Lake, Repository
from sparklake.errors import MergeConflictError
from tests.support.delta import Change, append, change_table, ids_of
from tests.support.lakes import refs_of

WINNERS = {"source-wins": "dev", "dest-wins": "main"}
"""The branch that each strategy takes where dev is merged into main."""


@dataclass(frozen=True)
class Desk:
    """A repository with a table of the ids 1 and 2, each in a file, and a branch beside main."""

    lake: Lake
    repo: Repository
    folder: Path

    def change(self, branch: str, *changes: Change) -> Commit:
        return change_table(self.repo, self.repo.branch(branch), self.folder / "work", *changes)

    def ids(self, ref: str) -> list[int]:
        return ids_of(self.repo, ref, self.folder / "read")

    @property
    def main(self) -> Branch:
        return self.repo.branch("main")


def desk_on(lake: Lake, folder: Path, range_records: int, name: str = "lake") -> Desk:
    namespace = str(folder / "namespace")
    desk = Desk(lake, lake.create_repository(name, namespace, range_records=range_records), folder)
    desk.main.put("a-before", b"1")
    desk.main.put("z-behind", b"1")
    desk.change("main", append(1), append(2))
    desk.repo.create_branch("dev", "main")
    return desk


@contextmanager
def refused(repo: Repository, words: str) -> Iterator[pytest.ExceptionInfo[MergeConflictError]]:
    """Check that the block raises a conflict and moves no ref."""
    before = refs_of(repo)
    with pytest.raises(MergeConflictError, match=words) as raised:
        yield raised
    assert refs_of(repo) == before


def names(*versions: int) -> list[str]:
    return [f"{version:020d}.json" for version in versions]
