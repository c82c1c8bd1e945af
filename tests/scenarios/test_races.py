"""Several processes on one branch, several threads after one name: nothing is lost or doubled."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from sparklake import Lake, Repository
from sparklake.errors import AlreadyExistsError, NamespaceInUseError
from sparklake.graveler.entries import Entry, entry_record
from sparklake.testing.lakes import commit_all, contents, memory_lake, namespace_of, postgres_lake
from sparklake.verbs.base.runner import MAX_ATTEMPTS
from tests.support.lakes import fingerprint, paths

pytestmark = pytest.mark.both_stores

ROOT = Path(__file__).parents[2]


@pytest.fixture
def repo(lake: Lake, folder: Path) -> Repository:
    name = f"race-{uuid4().hex[:8]}"
    made = lake.create_repository(name, str(folder / name), range_records=2)
    commit_all(made.branch("main"), {"base": b"base"}, "base")
    return made


Race = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def race(dsn: str, repo: Repository, scratch: Path) -> Race:
    """Run works as processes that begin at the same moment; return what each one says."""

    def run(*works: str, turns: int) -> list[dict[str, Any]]:
        with ExitStack() as stack:
            racers = []
            for number, work in enumerate(works):
                order = {"dsn": dsn, "repository": repo.name, "branch": "main", "turns": turns}
                order |= {"work": work, "name": f"racer-{number}"}
                command = [sys.executable, "-m", "tests.support.racing_process", json.dumps(order)]
                racer = subprocess.Popen(
                    command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
                racers.append(stack.enter_context(racer))
            for racer in racers:
                assert racer.stdout is not None
                assert racer.stdout.readline() == "ready\n"
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write("go\n")
                racer.stdin.flush()
            answers = [racer.communicate()[0] for racer in racers]
            assert [racer.returncode for racer in racers] == [0] * len(racers)
        return [json.loads(answer) for answer in answers]

    return run


def first_parents(repo: Repository, branch: str) -> list[str]:
    """Return the messages of a branch's own commits, the oldest first."""
    commit = repo.resolve(branch)
    messages = [commit.message]
    while commit.parents:
        commit = repo.resolve(commit.parents[0])
        messages.append(commit.message)
    return messages[::-1]


def check_log(repo: Repository) -> None:
    """Check that every move of main began where the one before it had ended."""
    moves = [each for each in repo.operations(10_000) if each.ref == "main"][::-1]
    assert moves[-1].to_commit == repo.resolve("main").id
    for before, after in pairwise(moves):
        assert after.from_commit == before.to_commit
    assert len(first_parents(repo, "main")) == len(moves)


@pytest.mark.system
@pytest.mark.parametrize(("processes", "turns"), [(2, 12), (4, 5)])
def test_commits_of_several_processes(
    race: Race, repo: Repository, processes: int, turns: int
) -> None:
    answers = race(*["commit_each"] * processes, turns=turns)

    done = [commit for answer in answers for commit in answer["commits"]]
    kinds = {result["kind"] for _, result in done}
    assert kinds <= {"ok", "already_committed", "no_changes", "race_lost"}
    for _, result in done:
        if result["kind"] == "already_committed":
            assert "another writer already committed" in result["id"]
    # Every object that was put is there, once, whoever committed it.
    expected = {path: path.encode() for path, _ in done}
    assert contents(repo, "main") == {"base": b"base", **expected}
    if "race_lost" not in kinds:
        assert contents(repo, "main@") == contents(repo, "main")
        assert not repo.branch("main").is_dirty
    made = [result["id"] for _, result in done if result["kind"] == "ok"]
    assert len(made) == len(set(made))
    assert set(made) < {each.id for each in repo.log("main")}
    assert len(list(repo.log("main"))) == len(made) + 2
    check_log(repo)


@pytest.mark.system
def test_eight_writers_commit_on_one_branch(race: Race, repo: Repository) -> None:
    """Nobody gives up: what was put is committed, by its writer or by one who came before."""
    answers = race(*["commit_each"] * 8, turns=3)
    done = [commit for answer in answers for commit in answer["commits"]]
    assert {result["kind"] for _, result in done} <= {"ok", "already_committed", "no_changes"}
    assert contents(repo, "main@") == {"base": b"base", **{path: path.encode() for path, _ in done}}
    assert not repo.branch("main").is_dirty
    check_log(repo)


@pytest.mark.system
def test_eight_writers_merge_into_one_branch(race: Race, repo: Repository) -> None:
    """All merges land, after a bounded number of attempts each."""
    writers, turns = 8, 4
    for number in range(writers):
        for turn in range(turns):
            name = f"racer-{number}-{turn}"
            commit_all(repo.create_branch(name, "main"), {name: name.encode()}, name)
    answers = race(*["merge_prepared"] * writers, turns=turns)
    merges = [merge for answer in answers for merge in answer["merges"]]
    assert {result["kind"] for _, result, _ in merges} == {"ok"}
    expected = {name: name.encode() for name, _, _ in merges}
    assert len(expected) == writers * turns
    assert contents(repo, "main@") == {"base": b"base", **expected}
    assert max(attempts for _, _, attempts in merges) <= 1 + MAX_ATTEMPTS
    check_log(repo)


@pytest.mark.system
def test_reverts_race_with_merges(race: Race, repo: Repository) -> None:
    """Each is made over what the others have made: what was reverted is gone, the rest there."""
    writers, turns = 3, 4
    for number in range(writers):
        for turn in range(turns):
            name = f"racer-{number}-{turn}"
            commit_all(repo.branch("main"), {name: name.encode()}, name)
            repo.create_tag(name, "main")
    for turn in range(turns):
        name = f"racer-{writers}-{turn}"
        commit_all(repo.create_branch(name, "main"), {name: name.encode()}, name)
    answers = race(*["revert_prepared"] * writers, "merge_prepared", turns=turns)
    reverts = [revert["kind"] for answer in answers[:-1] for revert in answer["reverts"]]
    assert reverts == ["ok"] * writers * turns
    merged = {name: name.encode() for name, _, _ in answers[-1]["merges"]}
    assert len(merged) == turns
    assert contents(repo, "main@") == {"base": b"base", **merged}
    check_log(repo)


@pytest.mark.system
def test_writers_go_on_while_others_commit(race: Race, repo: Repository) -> None:
    """Every put that was acknowledged is in the head or staged, and every deletion is obeyed."""
    answers = race("put_each", "put_each", "commit_all", turns=40)

    promised = {path: there for answer in answers[:2] for path, there in answer["promised"].items()}
    there = {path for path, there in promised.items() if there}
    assert set(paths(repo, "main")) == there | {"base"}
    commits = [result["kind"] for result in answers[2]["commits"]]
    assert set(commits) <= {"ok", "no_changes", "already_committed", "race_lost"}
    assert commits.count("ok") >= 3
    main = repo.branch("main")
    if main.is_dirty:
        main.commit("the rest")
    assert set(paths(repo, "main@")) == there | {"base"}
    check_log(repo)


@pytest.mark.system
def test_merges_race_with_commits(race: Race, repo: Repository) -> None:
    answers = race("merge_each", "merge_each", "commit_each", turns=6)

    merges = [merge for answer in answers[:2] for merge in answer["merges"]]
    commits = answers[2]["commits"]
    assert {result["kind"] for _, result in merges} <= {"ok", "race_lost"}
    assert {result["kind"] for _, result in commits} <= {"ok", "race_lost"}
    landed = {path for path, result in merges if result["kind"] == "ok"}
    assert landed
    # A merge brings all of its branch, so one that lost leaves its work to the next.
    found = set(paths(repo, "main"))
    assert found >= landed | {path for path, _ in commits} | {"base"}
    made = {result["id"] for _, result in [*merges, *commits] if result["kind"] == "ok"}
    log = {each.id: each for each in repo.log("main")}
    assert made <= set(log)
    for path, result in merges:
        if result["kind"] == "ok":
            dest, source = log[result["id"]].parents
            assert log[source].message == path
            assert path not in paths(repo, dest)
            assert path in paths(repo, result["id"])
    check_log(repo)


def test_readers_see_all_of_a_commit_or_none(race: Race, repo: Repository) -> None:
    """Pairs are staged at once; whatever a reader sees, it never sees half of one."""
    main, barrier = repo.branch("main"), Barrier(2)

    def write() -> None:
        barrier.wait()
        for turn in range(25):
            main._context.refs.staging.put("main", pair(repo, turn), fence=0)
            main.commit(f"pair {turn}")

    def read() -> int:
        barrier.wait()
        seen = 0
        while seen < 25:
            found = paths(repo, "main", "pair/")
            lefts = [each for each in found if each.endswith("left")]
            assert len(found) == 2 * len(lefts)
            assert len(lefts) >= seen, "what was seen once is gone"
            seen = len(lefts)
            committed = paths(repo, "main@", "pair/")
            assert len(committed) % 2 == 0
        return seen

    with ThreadPoolExecutor(2) as threads:
        reading = threads.submit(read)
        threads.submit(write).result()
        assert reading.result() == 25


def pair(repo: Repository, turn: int) -> list[tuple[bytes, bytes]]:
    """Return two records, as a put stages one."""
    entry = Entry("data/x", turn, "c", 0)
    return [entry_record(f"pair/{turn}/{side}", entry) for side in ("left", "right")]


# --- creation -------------------------------------------------------------------------------------

THREADS = 8


@pytest.fixture(params=["memory", "postgres"])
def arena(request: pytest.FixtureRequest) -> Lake:
    return memory_lake() if request.param == "memory" else request.getfixturevalue("lake")


def all_at_once(create: Callable[[int], Repository]) -> list[Repository | Exception]:
    barrier = Barrier(THREADS)

    def attempt(number: int) -> Repository | Exception:
        barrier.wait()
        try:
            return create(number)
        except AlreadyExistsError as error:
            return error

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(attempt, range(THREADS)))


@pytest.mark.parametrize("same", ["name", "namespace", "both", "nested"])
def test_one_of_many_creations_wins(arena: Lake, folder: Path, same: str) -> None:
    stem = f"arena-{uuid4().hex[:8]}"
    before = {each.name for each in arena.repositories()}

    def create(number: int) -> Repository:
        name = stem if same in ("name", "both") else f"{stem}-{number}"
        place = folder / ("space" if same in ("namespace", "both") else f"space-{number}")
        if same == "nested":
            place = folder.joinpath("space", *["deeper"] * number)
        return arena.create_repository(name, str(place))

    results = all_at_once(create)

    (winner,) = (each for each in results if isinstance(each, Repository))
    if same in ("namespace", "nested"):
        losers = [each for each in results if not isinstance(each, Repository)]
        assert {type(each) for each in losers} == {NamespaceInUseError}
    assert {each.name for each in arena.repositories()} - before == {winner.name}
    marks = [path.parents[1] for path in folder.rglob("dummy")]
    assert marks == [namespace_of(winner)]
    commit_all(winner.branch("main"), {"k": b"v"}, "it works")
    assert contents(arena.repository(winner.name), "main@") == {"k": b"v"}


def test_one_of_many_branches_wins(arena: Lake, folder: Path) -> None:
    stem = f"arena-{uuid4().hex[:8]}"
    repo = arena.create_repository(stem, str(folder / stem))
    results = all_at_once(lambda _: repo.create_branch("dev", "main") and repo)
    assert sum(isinstance(each, Repository) for each in results) == 1
    assert [each.verb for each in repo.operations()] == ["create-branch", "create-repository"]


def test_two_lakes_do_not_share_a_namespace(dsn: str, folder: Path) -> None:
    """Not even under one name, and while nothing is in it but the mark."""
    one, other = memory_lake(), memory_lake()
    one.create_repository("lake", str(folder / "space"))
    with postgres_lake(dsn) as third:
        for lake in (other, third):
            before = fingerprint(lake, folder)
            with pytest.raises(NamespaceInUseError, match="choose an unused one"):
                lake.create_repository("lake", str(folder / "space"))
            assert fingerprint(lake, folder) == before
