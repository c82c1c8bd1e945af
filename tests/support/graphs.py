"""Commit graphs in a repository, given as the parents of each commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparklake import Commit, Repository
from sparklake.graveler.commits import new_commit
from sparklake.graveler.ports import BranchMove
from tests.support.lakes import TESTER

START = 1_700_000_000


def grow(
    repo: Repository, history: Mapping[str, Sequence[str]], dates: Mapping[str, int] | None = None
) -> dict[str, Commit]:
    """Adds commits of empty trees, parents first, each with a branch of its name.

    A commit without parents stands on nothing, not even on the first commit. Each is a second
    younger than the one before where no date is given.
    """
    branches, first = repo._context.refs.branches, repo.resolve("main")
    made: dict[str, Commit] = {}
    for number, (name, parents) in enumerate(history.items()):
        made[name] = each = new_commit(
            parents=[made[parent] for parent in parents],
            committer=TESTER,
            message=name,
            creation_date=START + number if dates is None else dates[name],
            meta_range_id=first.meta_range_id,
        )
        branches.create(name, first.id, TESTER)
        branches.move(BranchMove(name, first.id, each.id, "commit", TESTER, each))
    return made
