"""Commit graphs in a repository, given as the parents of each commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import psycopg
from psycopg.types.json import Jsonb

from sparklake import Commit, Repository
from sparklake.graveler.commits import new_commit
from sparklake.graveler.ids import EMPTY_META_RANGE
from sparklake.graveler.ports import BranchMove
from sparklake.testing.lakes import TESTER

START = 1_700_000_000
_COPY = """
    COPY sparklake.commits (repository_uid, id, parents, committer, message, creation_date,
        meta_range_id, metadata, generation) FROM STDIN
"""


def grow(
    repo: Repository,
    history: Mapping[str, Sequence[str]],
    dates: Mapping[str, int] | None = None,
    skipped: Mapping[str, int] | None = None,
) -> dict[str, Commit]:
    """Add commits with empty trees, parents first, each with a branch of its name.

    A commit without parents does not descend from the first commit. Without a date, each is one
    second younger than the one before. Generations are higher by those that are `skipped`.
    """
    branches, first = repo._context.refs.branches, repo.resolve("main")
    commits: dict[str, Commit] = {}
    for number, (name, parents) in enumerate(history.items()):
        each = new_commit(
            parents=[commits[parent] for parent in parents],
            committer=TESTER,
            message=name,
            creation_date=START + number if dates is None else dates[name],
            meta_range_id=first.meta_range_id,
        )
        more = 0 if skipped is None else skipped[name]
        commits[name] = each = replace(each, generation=each.generation + more)
        branches.create(name, first.id, TESTER)
        branches.move(BranchMove(name, first.id, each.id, "commit", TESTER, (each,), fence=0))
    return commits


def insert(dsn: str, repo: Repository, history: Mapping[str, Sequence[str]]) -> dict[str, Commit]:
    """Add many commits with empty trees directly to the ref store, without branches."""
    commits: dict[str, Commit] = {}
    for number, (name, parents) in enumerate(history.items()):
        commits[name] = new_commit(
            parents=[commits[parent] for parent in parents],
            committer=TESTER,
            message=name,
            creation_date=START + number,
            meta_range_id=EMPTY_META_RANGE,
        )
    with (
        psycopg.connect(dsn) as connection,
        connection.cursor() as cursor,
        cursor.copy(_COPY) as rows,
    ):
        for each in commits.values():
            who = (each.committer, each.message, each.creation_date, each.meta_range_id)
            rows.write_row(
                (repo.info.uid, each.id, list(each.parents), *who, Jsonb({}), each.generation)
            )
    return commits
