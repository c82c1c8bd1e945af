"""Kill -9 before each step of a verb: what is left is the old state or the new one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest

from campaigns.faults.table_writes import write
from sparklake import Branch, Lake, Repository
from sparklake.errors import (
    AlreadyExistsError,
    CollectionRunningError,
    MergeConflictError,
    NoChangesError,
    RepositoryNotFoundError,
)
from sparklake.graveler.ports import WriteState
from sparklake.testing.lakes import commit_all, contents, namespace_of, put_all, stage_table
from sparklake.verbs.tables.write_request import WriteMode
from tests.support.mortals import MAX_STEPS, Mortals, deaths

BASE = {f"base/{number}": b"%d" % number for number in range(9)}


@pytest.fixture
def repository(survivor: Lake, folder: Path) -> Repository:
    name = f"crash-{uuid4().hex[:8]}"
    made = survivor.create_repository(name, str(folder / name), range_records=2)
    commit_all(made.branch("main"), dict(BASE), "base")
    return made


@pytest.fixture
def fresh(survivor: Lake, repository: Repository) -> Callable[[str], Branch]:
    """Make a branch, by a handle on the repository that knows nothing yet."""
    numbers = count(1)

    def make(source: str) -> Branch:
        opened = survivor.repository(repository.name)
        return opened.create_branch(f"branch-{next(numbers)}", source)

    return make


def lines(repository: Repository, branch: Branch, verb: str) -> int:
    """Return how often a verb has moved a branch."""
    moves = repository.operations(1000)
    return sum((each.verb, each.ref) == (verb, branch.name) for each in moves)


def test_a_commit_is_made_or_not(
    mortals: Mortals, repository: Repository, fresh: Callable[[str], Branch], folder: Path
) -> None:
    bulk = folder / "bulk"
    bulk.write_bytes(b"bulk")
    run_of_one = stage_table([{"path": "base/5", "size": 4, "address": f"file://{bulk}"}])
    after = {**BASE, "base/4": b"below", "base/5": b"bulk", "base/6": b"above", "new": b"new"}
    del after["base/3"]

    def run(last: int) -> bool:
        branch = fresh("main")
        old = branch.head
        put_all(branch, {"base/3": None, "base/4": b"below"})
        branch.stage(run_of_one)
        put_all(branch, {"base/6": b"above", "new": b"new"})

        died = mortals.send(last, "commit", repository=repository.name, branch=branch.name)

        assert contents(repository, branch.name) == after
        if branch.head == old:
            assert died
            assert contents(repository, f"{branch.name}@") == BASE
            assert len(list(branch.diff())) == 5
            branch.commit("again")
        else:
            assert not branch.is_dirty
            with pytest.raises(NoChangesError):
                branch.commit("again")
        assert branch.head.parents == (old.id,)
        assert not branch.is_dirty
        assert contents(repository, f"{branch.name}@") == after
        assert lines(repository, branch, "commit") == 1
        return died

    assert deaths(run) > 20


def test_a_collection_that_dies_is_ended_by_the_next_one(
    mortals: Mortals, survivor: Lake, repository: Repository
) -> None:
    main = survivor.repository(repository.name).branch("main")
    # Commits that are no heads expire, and objects that only these named go.
    repository.settings.set_retention(0)

    def run(last: int) -> bool:
        commit_all(main, {"base/0": b"once"}, "once")
        commit_all(main, {"base/0": BASE["base/0"]}, "as before")
        main.put("staged", b"1")
        main.put("staged", b"%d" % last)
        kept, before = {**BASE, "staged": b"%d" % last}, objects_of(repository)

        died = mortals.send(last, "collect", repository=repository.name, branch="main")

        assert contents(repository, "main") == kept
        named = named_by(repository)
        assert objects_of(repository) >= named & before
        # Others go on, whatever is left of it.
        main.put("late", b"late")
        collect(survivor, repository)
        assert contents(repository, "main") == {**kept, "late": b"late"}
        # What lies in lower layers was named, too.
        main.reset()
        collect(survivor, repository)
        assert objects_of(repository) == named_by(repository)
        return died

    # Before every seventh step: each is of another kind than the one before.
    survived = next(last for last in range(1, MAX_STEPS, 7) if not run(last))
    assert survived > 60


def collect(lake: Lake, repository: Repository) -> None:
    """Collect garbage, once the server has noticed that who held the lock is dead."""
    for _ in range(500):
        with suppress(CollectionRunningError):
            lake.repository(repository.name).collect_garbage(grace=timedelta())
            return
        time.sleep(0.01)
    raise AssertionError("the lock of a dead process stays")


def objects_of(repository: Repository) -> set[str]:
    folder = namespace_of(repository) / "data"
    return {f"file://{each}" for each in folder.rglob("*") if each.is_file()}


def named_by(repository: Repository) -> set[str]:
    """Return the addresses that main names, staged or not."""
    return {each.address for ref in ("main", "main@") for each in repository.objects(ref)}


@pytest.mark.parametrize("strategy", [None, "source-wins"])
def test_a_merge_is_made_or_not(
    mortals: Mortals, repository: Repository, fresh: Callable[[str], Branch], strategy: str | None
) -> None:
    conflict = {"base/7": b"theirs"} if strategy else {}
    dev, main = repository.create_branch("dev", "main"), repository.branch("main")
    theirs = commit_all(dev, {"base/1": b"changed", "new": b"new", **conflict}, "theirs")
    ours = commit_all(main, {"base/7": b"ours", "base/8": None}, "ours")
    before = contents(repository, "main")
    after = {**before, "base/1": b"changed", "new": b"new", **conflict}
    order = {"repository": repository.name, "source": "dev", "strategy": strategy}

    def run(last: int) -> bool:
        branch = fresh("main")

        died = mortals.send(last, "merge", branch=branch.name, **order)

        if branch.head == ours:
            assert died
            assert contents(repository, branch.name) == before
            if strategy:
                with pytest.raises(MergeConflictError):
                    repository.merge("dev", branch.name)
            repository.merge("dev", branch.name, strategy)
        else:
            with pytest.raises(NoChangesError):
                repository.merge("dev", branch.name, strategy)
        assert branch.head.parents == (ours.id, theirs.id)
        assert contents(repository, branch.name) == after
        assert lines(repository, branch, "merge") == 1
        return died

    assert deaths(run) > 15
    assert dev.head == theirs


def test_an_import_is_made_or_not(
    mortals: Mortals, repository: Repository, fresh: Callable[[str], Branch], folder: Path
) -> None:
    source = folder / "source"
    source.mkdir()
    imported = {f"imported/{number}": b"%d" % number for number in range(5)}
    for path, body in imported.items():
        (source / path.removeprefix("imported/")).write_bytes(body)
    old = commit_all(repository.branch("main"), {"imported/gone": b"gone"}, "to be replaced")

    def run(last: int) -> bool:
        branch = fresh("main")

        order = {"repository": repository.name, "branch": branch.name, "source": str(source)}
        died = mortals.send(last, "import", **order)

        if branch.head == old:
            assert died
            assert contents(repository, branch.name) == {**BASE, "imported/gone": b"gone"}
            branch.import_objects(str(source), "imported/", replace=True)
        else:
            with pytest.raises(NoChangesError):
                branch.import_objects(str(source), "imported/", replace=True)
        assert branch.head.parents == (old.id,)
        assert contents(repository, branch.name) == {**BASE, **imported}
        assert lines(repository, branch, "import") == 1
        return died

    assert deaths(run) > 15


def test_a_write_is_made_or_not(
    mortals: Mortals, survivor: Lake, repository: Repository, fresh: Callable[[str], Branch]
) -> None:
    """The driver dies at any moment, after Spark has written too: nothing is half staged."""
    files = ["p=1/part-1", "_SUCCESS"]
    commit_all(repository.branch("main"), {"t/p=0/part-0": b"old"}, "a table")
    before = contents(repository, "main")
    after = {**BASE, **{f"t/{each}": each.encode() for each in files}}
    order = {"repository": repository.name, "path": "t", "files": files}

    def run(last: int) -> bool:
        branch = fresh("main")
        died = mortals.send(last, "write", branch=branch.name, **order)
        opened = survivor.repository(repository.name)
        left = [each for each in opened.writes() if each.branch == branch.name]
        found = contents(repository, branch.name)
        if found == before:
            assert died
            assert {each.state for each in left} <= {WriteState.OPEN}
            named = {each.address for each in repository.objects(branch.name)}
            for each in left:
                for file in opened._context.store.list(f"{each.place}/"):
                    assert f"{opened._context.store.uri}/{file.key}" not in named
                opened.abandon_write(each.id)
            write(opened, branch.name, "t", files, WriteMode.OVERWRITE)
            found = contents(repository, branch.name)
        else:
            assert left == []
        assert found == after
        return died

    assert deaths(run) > 12


@pytest.mark.parametrize("dirty", [False, True])
def test_a_put_is_staged_or_not(
    mortals: Mortals, repository: Repository, fresh: Callable[[str], Branch], dirty: bool
) -> None:
    """Into a fresh layer, and into one that is there."""

    def run(last: int) -> bool:
        branch = fresh("main")
        before = {**BASE, "other": b"staged"} if dirty else BASE
        if dirty:
            branch.put("other", b"staged")

        order = {"repository": repository.name, "branch": branch.name, "path": "k", "body": "v"}
        died = mortals.send(last, "put", **order)

        found = contents(repository, branch.name)
        assert found == {**before, "k": b"v"} or (died and found == before)
        branch.put("k", b"v")
        branch.commit("what was put")
        assert contents(repository, f"{branch.name}@") == {**before, "k": b"v"}
        return died

    assert deaths(run) > 8


def test_a_repository_is_made_or_not(mortals: Mortals, survivor: Lake, folder: Path) -> None:
    def run(last: int) -> bool:
        name = f"made-{last}"
        place = folder / name

        died = mortals.send(last, "create", repository=name, namespace=str(place))

        try:
            repository = survivor.repository(name)
        except RepositoryNotFoundError:
            assert died
            repository = survivor.create_repository(name, str(place))
        else:
            with pytest.raises(AlreadyExistsError):
                survivor.create_repository(name, str(place))
        assert repository.resolve("main").parents == ()
        assert [each.verb for each in repository.operations()] == ["create-repository"]
        commit_all(repository.branch("main"), {"a": b"a"}, "first")
        assert contents(repository, "main@") == {"a": b"a"}
        assert (place / "_lakefs" / "dummy").is_file()
        return died

    assert deaths(run) > 8
