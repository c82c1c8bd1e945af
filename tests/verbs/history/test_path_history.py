"""Logs of a path and blame: against brute force, and what is read for them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.counting import counted_round_trips, recorded_reads
from sparklake import Lake, Repository
from sparklake.errors import InvalidInputError, InvalidKeyError
from sparklake.graveler.planning.change_summary import SearchTarget, decode_summary, name_hash
from sparklake.testing.lakes import commit_all
from sparklake.verbs.base.open_trees import TreeCaches
from sparklake.verbs.history.blame import BLAME_SCHEMA
from tests.support.graphs import insert
from tests.support.random_history import BRANCHES, PATHS, PREFIXES, Histories, random_history
from tests.support.seeds import seeds


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    return new_repository(any_lake, folder)


def new_repository(lake: Lake, folder: Path, range_records: int = 4) -> Repository:
    name = f"r-{uuid4().hex}"
    return lake.create_repository(name, str(folder / name), range_records=range_records)


def without_summaries(repo: Repository) -> Repository:
    """Return the repository as one is whose commits were restored."""
    repo._context.refs.commits.change_summaries = lambda commit_ids: {}  # type: ignore[method-assign]
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
    """Check that what is kept of a commit holds all that it changed; counts those by name."""
    kept, exact = repo._context.refs.commits.change_summaries(list(known.commits)), 0
    for each in known.commits.values():
        if each.id not in kept:
            continue
        touched = decode_summary(kept[each.id])
        assert touched is not None
        before, after = known.trees[each.parents[0]], known.trees[each.id]
        for path in before.keys() | after.keys():
            key = path.encode()
            seen = touched.may_hold(SearchTarget.key(key).interval, name_hash(key))
            assert seen or before.get(path) == after.get(path), path
            exact += not seen
        for prefix in PREFIXES:
            sought = SearchTarget.prefix(prefix.encode())
            seen = touched.may_hold(sought.interval, name_hash(sought.name))
            same = known.part(each.parents[0], prefix, None) == known.part(each.id, prefix, None)
            assert seen or same, prefix
    return exact


@pytest.mark.parametrize("seed", seeds(6, always=2))
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


# --- what it costs --------------------------------------------------------------------------------


def test_only_commits_that_may_have_touched_it_are_opened(repo: Repository) -> None:
    main = repo.branch("main")
    made = {}
    for number in range(60):
        made[number] = commit_all(main, {f"k/{number % 20:02}": b"x" * number}, f"{number}")
    repo = Repository(
        replace(repo._context, caches=TreeCaches(repo._context.workspace, repo._context.refs))
    )
    wanted = [made[number].id for number in (47, 27, 7)]
    with recorded_reads() as reads:
        assert [each.id for each in repo.log("main", path="k/07")] == wanted
    # For each of them, and a few of which no names are known, two metaranges and a range of each.
    assert len({*reads}) <= 4 * (3 + 3)
    with recorded_reads() as reads:
        assert list(repo.log("main", path="none")) == []
        assert list(repo.log("main", prefix="none/")) == []
    assert reads == []
    with recorded_reads() as reads:
        assert [row.commit.id for row in repo.blame("main", "k/07")] == wanted[:1]
    assert len({*reads}) <= 4


def test_round_trips_grow_with_the_logarithm_of_a_history(
    lake: Lake, dsn: str, folder: Path
) -> None:
    repo = new_repository(lake, folder)
    line = {f"c{number}": [f"c{number - 1}"] if number else [] for number in range(10_000)}
    repo.create_branch("long", insert(dsn, repo, line)["c9999"].id)
    repo = lake.repository(repo.name)
    with counted_round_trips() as answers:
        assert list(repo.log("long", path="none")) == []
    assert len(answers) <= 16, answers
    with counted_round_trips() as answers:
        assert list(repo.log("long", prefix="")) == []
        assert repo.merge_base("long~5000", "long").message == "c4999"
    assert len(answers) <= 12, answers


@pytest.mark.system
def test_a_graph_lets_go_of_what_it_read_first(
    lake: Lake, dsn: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = new_repository(lake, folder)
    line = {f"c{number}": [f"c{number - 1}"] if number else [] for number in range(3_000)}
    repo.create_branch("long", insert(dsn, repo, line)["c2999"].id)
    monkeypatch.setattr("sparklake.verbs.base.commit_graph._COMMITS_KEPT", 500)
    repo = lake.repository(repo.name)
    assert [each.message for each in repo.log("long")] == [*line][::-1]
    assert len(repo._context.graph._known) < len(line)
    assert [each.message for each in repo.log("long")] == [*line][::-1]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"path": "a", "prefix": "a"}, InvalidInputError),
        ({"path": ""}, InvalidKeyError),
        ({"path": "x" * 1025}, InvalidKeyError),
        ({"prefix": "\udc80"}, InvalidKeyError),
    ],
)
def test_what_no_history_can_be_asked(
    small_lake: Lake, folder: Path, asked: dict[str, str], error: type[Exception]
) -> None:
    repo = new_repository(small_lake, folder)
    with pytest.raises(error):
        repo.log("main", **asked)  # type: ignore[arg-type]
    if "path" not in asked:
        with pytest.raises(error):
            repo.blame("main", asked["prefix"])


def test_a_blame_in_arrow(small_lake: Lake, folder: Path) -> None:
    repo = new_repository(small_lake, folder)
    assert repo.blame("main").to_arrow().equals(BLAME_SCHEMA.empty_table())
    made = commit_all(repo.branch("main"), {"b": b"1", "a": b"1"}, "both")
    table = repo.blame("main").to_arrow()
    assert table.schema == BLAME_SCHEMA
    assert table.column("path").to_pylist() == ["a", "b"]
    assert {*table.column("commit_id").to_pylist()} == {made.id}
