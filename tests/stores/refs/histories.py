"""Repositories and commit graphs for tests of ref stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from uuid import uuid4

from sparklake.graveler.commits import Commit, first_commit, new_commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import BranchMove, RefStore, RepositoryInfo, RepositoryRefs

FIRST = first_commit(1_700_000_000)

_serial = count()


def a_repository(name: str = "lake", namespace: str | None = None) -> RepositoryInfo:
    uid = uuid4().hex
    return RepositoryInfo(name, uid, namespace or f"s3://bucket/{uid}", "main", 4096, 1_700_000_000)


def new_refs(store: RefStore, name: str = "lake") -> RepositoryRefs:
    info = a_repository(name)
    store.create_repository(info, FIRST, "ann")
    return store.refs(info.uid)


def a_commit(*parents: Commit, message: str = "") -> Commit:
    return new_commit(
        parents=parents or (FIRST,),
        committer="ann",
        message=message or f"commit {next(_serial)}",
        creation_date=1_700_000_001,
        meta_range_id=MetaRangeId("a" * 64),
        metadata={"zoë": "'; --", "a": ""},
    )


def a_move(
    expected: Commit, commit: Commit, branch: str = "main", layers: Sequence[int] = ()
) -> BranchMove:
    return BranchMove(
        branch, expected.id, commit.id, "commit", "ann", (commit,), tuple(layers), fence=0
    )


def grow(refs: RepositoryRefs, shape: Mapping[str, Sequence[str]]) -> dict[str, Commit]:
    """Add commits given as name -> names of parents, parents first; without any, FIRST is it."""
    commits: dict[str, Commit] = {}
    for name, parents in shape.items():
        commits[name] = a_commit(*(commits[parent] for parent in parents), message=name)
        refs.branches.create(name, FIRST.id, "ann")
        refs.branches.move(a_move(FIRST, commits[name], branch=name))
    return commits


def nearest_first(
    commits: Mapping[CommitId, Commit], start: Sequence[CommitId]
) -> Sequence[CommitId]:
    """Is ancestry as one would write it without a database."""
    distances: dict[CommitId, int] = {}
    level, distance = set(start) & commits.keys(), 0
    while level:
        distances.update(dict.fromkeys(level, distance))
        level = {parent for name in level for parent in commits[name].parents} - distances.keys()
        distance += 1
    return sorted(distances, key=lambda name: (distances[name], name))
