"""Logs of a path and blame: against brute force, and what is read for them."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import uuid4

import pytest

from sparklake import Lake, Repository
from sparklake.graveler.touched import Sought, decode_touched, name_hash
from tests.support.random_history import BRANCHES, PATHS, PREFIXES, Histories, random_history


@pytest.fixture(params=["memory", "postgres"])
def repo(request: pytest.FixtureRequest, folder: Path) -> Repository:
    lake: Lake = request.getfixturevalue("small_lake" if request.param == "memory" else "lake")
    return new_repository(lake, folder)


def new_repository(lake: Lake, folder: Path, range_records: int = 4) -> Repository:
    name = f"r-{uuid4().hex}"
    return lake.create_repository(name, str(folder / name), range_records=range_records)


def without_summaries(repo: Repository) -> Repository:
    """Returns the repository as one is whose commits were restored."""
    repo._context.refs.commits.touched = lambda commit_ids: {}  # type: ignore[method-assign]
    return repo


def check_logs(known: Histories, repo: Repository) -> None:
    for name in BRANCHES:
        head = repo.resolve(name).id
        for first_parent in (False, True):
            for path in PATHS:
                found = [each.id for each in repo.log(name, path=path, first_parent=first_parent)]
                assert found == known.log(head, path=path, first_parent=first_parent), path
            for prefix in PREFIXES:
                found = [e.id for e in repo.log(name, prefix=prefix, first_parent=first_parent)]
                assert found == known.log(head, prefix, first_parent=first_parent), prefix


def check_blame(known: Histories, repo: Repository) -> None:
    for name in BRANCHES:
        head = repo.resolve(name).id
        for prefix in PREFIXES:
            found = {row.path: row.commit.id for row in repo.blame(name, prefix)}
            assert found == known.blame(head, prefix), prefix
            assert [*found] == sorted(found, key=str.encode)


def check_summaries(known: Histories, repo: Repository) -> int:
    """Checks that what is kept of a commit holds all that it changed; counts those by name."""
    kept, exact = repo._context.refs.commits.touched(list(known.commits)), 0
    for each in known.commits.values():
        if each.id not in kept:
            continue
        touched = decode_touched(kept[each.id])
        assert touched is not None
        before, after = known.trees[each.parents[0]], known.trees[each.id]
        for path in before.keys() | after.keys():
            key = path.encode()
            seen = touched.may_hold(Sought.key(key).interval, name_hash(key))
            assert seen or before.get(path) == after.get(path), path
            exact += not seen
        for prefix in PREFIXES:
            sought = Sought.prefix(prefix.encode())
            seen = touched.may_hold(sought.interval, name_hash(sought.name))
            same = known.part(each.parents[0], prefix, None) == known.part(each.id, prefix, None)
            assert seen or same, prefix
    return exact


@pytest.mark.parametrize("seed", range(6))
def test_logs_and_blames_are_those_of_brute_force(
    small_lake: Lake, folder: Path, seed: int
) -> None:
    chance = random.Random(seed)
    repo = new_repository(small_lake, folder, chance.choice([1, 2, 4, 64]))
    known = random_history(repo, chance)
    assert len({each.message.split()[0] for each in known.commits.values()}) >= 5
    check_logs(known, repo)
    check_blame(known, repo)
    assert check_summaries(known, repo) > 20
    bare = without_summaries(Repository(repo._context))
    check_logs(known, bare)
    check_blame(known, bare)


def test_so_they_are_from_postgres(repo: Repository) -> None:
    known = random_history(repo, random.Random(21), 12)
    check_logs(known, repo)
    check_blame(known, repo)
    assert check_summaries(known, repo) > 10
