"""Writers of equal content beside a purge: what they commit after it began is never deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from unittest import mock
from uuid import uuid4

import pytest

from campaigns.simulator.schedules import Schedule, scheduled
from sparklake import Lake, Repository, SparklakeError
from sparklake.errors import (
    NoChangesError,
    NotFoundError,
    PurgeBlockedError,
    PurgedError,
    PurgeRunningError,
)
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ports.registers import PurgeState
from sparklake.namespace.markers import open_purges
from sparklake.stores.objects.local.store import LocalStore
from sparklake.stores.postgres.registers import PostgresPurges
from sparklake.testing.lakes import commit_all, memory_lake, namespace_of, stage_table
from sparklake.testing.memory.registers import MemoryPurges
from tests.support.crashes import CrashError, dies_at
from tests.support.interleaved_calls import just_before

SECRET = b"secret"
SCHEDULES = 40
SHARES = 4


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    """Return a repository whose history has an object that no branch has any more."""
    name = f"purge-{uuid4().hex[:8]}"
    made = any_lake.create_repository(name, str(folder / "namespace"), range_records=2)
    forget_secret(made)
    return made


def forget_secret(repo: Repository) -> None:
    main = repo.branch("main")
    commit_all(main, {"p": SECRET}, "first")
    commit_all(main, {"p": None}, "forget")


def before_row(repo: Repository, act: Callable[[], object]) -> object:
    """Run `act` between the scan of a purge and its row, in the repository's own ref store."""
    owner = type(repo._context.refs.purges)
    assert owner in (MemoryPurges, PostgresPurges)
    return just_before(owner, "add", act)


def before_end(repo: Repository, act: Callable[[], object]) -> object:
    """Run `act` between the deletions of a purge and its end."""
    return just_before(type(repo._context.refs.purges), "finish", act)


def store_of(repo: Repository) -> ObjectStore:
    return repo._context.store


def refused_while_open(repo: Repository) -> Callable[[], None]:
    """Return a step that puts the purged content, and whose commit must be refused."""

    def act() -> None:
        main = repo.branch("main")
        main.put("p", SECRET)
        with pytest.raises(PurgeRunningError, match="sparklake purge resume"):
            main.commit("again")

    return act


@pytest.mark.both_stores
@pytest.mark.parametrize("before", [before_row, before_end])
def test_equal_content_waits_for_the_end(
    repo: Repository, before: Callable[[Repository, Callable[[], object]], object]
) -> None:
    with before(repo, refused_while_open(repo)):  # type: ignore[attr-defined]
        made = repo.purge(["p"])
    assert made.counts.addresses == 1
    head = repo.branch("main").commit("again")
    assert repo.read_bytes(head.id, "p") == SECRET
    assert repo.purges() == [made]
    assert open_purges(store_of(repo)) == []


@pytest.mark.both_stores
def test_a_run_of_equal_content_waits_for_the_end(repo: Repository, folder: Path) -> None:
    """Bulk changes are refused when they are staged: a run is a range already."""
    outside = folder / "outside"
    outside.write_bytes(SECRET)
    found = repo.stat("main~1", "p")
    row = {"path": "p", "size": found.size, "checksum": found.checksum}
    rows = stage_table([{**row, "address": f"file://{outside}"}])

    def act() -> None:
        with pytest.raises(PurgeRunningError):
            repo.branch("main").stage(rows)

    with before_row(repo, act):  # type: ignore[attr-defined]
        repo.purge(["p"])
    repo.branch("main").stage(rows)
    head = repo.branch("main").commit("again")
    assert repo.read_bytes(head.id, "p") == SECRET


@pytest.mark.both_stores
def test_other_content_is_committed_meanwhile(repo: Repository) -> None:
    def act() -> None:
        commit_all(repo.branch("main"), {"p": b"other", "q": SECRET}, "other")

    with before_row(repo, act):  # type: ignore[attr-defined]
        repo.purge(["p"])
    assert repo.read_bytes("main", "p") == b"other"
    assert repo.read_bytes("main", "q") == SECRET


@pytest.mark.both_stores
def test_equal_content_before_the_scan_blocks_the_purge(repo: Repository) -> None:
    repo.branch("main").put("p", SECRET)
    with pytest.raises(PurgeBlockedError):
        repo.purge(["p"])
    assert open_purges(store_of(repo)) == []
    head = repo.branch("main").commit("again")
    assert repo.read_bytes(head.id, "p") == SECRET
    with pytest.raises(PurgeBlockedError):
        repo.purge(["p"])
    assert repo.read_bytes(head.id, "p") == SECRET


@pytest.mark.both_stores
def test_equal_content_after_a_purge_is_restored(repo: Repository) -> None:
    repo.purge(["p"])
    head = commit_all(repo.branch("main"), {"p": SECRET}, "again")
    assert repo.read_bytes(head.id, "p") == SECRET


@pytest.mark.both_stores
def test_a_commit_in_flight_begins_again(repo: Repository) -> None:
    """A commit that adopted a range before the purge began is refused, and the range then, too."""
    main = repo.branch("main")
    main.put("p", SECRET)
    owner = type(repo._context.refs.branches)
    purged: list[object] = []

    def purge() -> None:
        with pytest.raises(PurgeBlockedError):  # the object is staged
            repo.purge(["p"])
        purged.append(None)

    with just_before(owner, "move", purge):
        head = main.commit("again")
    assert purged
    assert repo.read_bytes(head.id, "p") == SECRET


@pytest.mark.both_stores
def test_a_put_in_flight_begins_again(repo: Repository) -> None:
    main, owner = repo.branch("main"), type(repo._context.refs.staging)
    with just_before(owner, "put", lambda: repo.purge(["p"])):
        main.put("p", SECRET)
    head = main.commit("again")
    assert repo.read_bytes(head.id, "p") == SECRET


@pytest.mark.both_stores
@pytest.mark.parametrize("step", range(8))
def test_a_killed_purge_is_resumed_without_loss(repo: Repository, step: int) -> None:
    names = ("put_if_absent", "replace", "delete")
    with suppress(CrashError), dies_at(step, LocalStore, names):
        repo.purge(["p"])
    main = repo.branch("main")
    main.put("p", SECRET)
    committed = None
    with suppress(PurgeRunningError):
        committed = main.commit("again")
    for each in open_purges(store_of(repo)):
        known = [made.id for made in repo.purges()]
        if each in known:
            assert repo.resume_purge(each).state is PurgeState.DONE
        else:
            with pytest.raises(NotFoundError, match="deleted nothing"):
                repo.resume_purge(each)
    assert open_purges(store_of(repo)) == []
    head = committed or main.commit("again")
    assert repo.read_bytes(head.id, "p") == SECRET
    for made in repo.purges():
        assert repo.resume_purge(made.id).state is PurgeState.DONE
    assert repo.read_bytes(head.id, "p") == SECRET


@pytest.mark.both_stores
def test_the_next_purge_ends_one_that_died_before_it_deleted(repo: Repository) -> None:
    with suppress(CrashError), dies_at(1, LocalStore, ("put_if_absent", "delete")):
        repo.purge(["p"])
    assert len(open_purges(store_of(repo))) == 1
    repo.purge(["p"])
    assert open_purges(store_of(repo)) == []


@pytest.mark.both_stores
def test_a_purge_that_was_ended_before_it_deleted_deletes_nothing(repo: Repository) -> None:
    """It has lost its lock before it was registered, and goes on later."""
    committed: list[str] = []

    def others() -> None:
        with pytest.raises(NoChangesError):
            repo.purge(["no such path"])
        committed.append(commit_all(repo.branch("main"), {"p": SECRET}, "again").id)

    locks = mock.patch.object(type(repo._context.refs.purges), "alone", nullcontext)
    with (
        locks,
        before_row(repo, others),
        pytest.raises(PurgeRunningError, match="another purge closed it"),
    ):
        repo.purge(["p"])
    assert repo.read_bytes(committed[0], "p") == SECRET
    (made,) = repo.purges()
    with pytest.raises(PurgeBlockedError):
        repo.resume_purge(made.id)
    commit_all(repo.branch("main"), {"p": None}, "forget")
    assert repo.resume_purge(made.id).state is PurgeState.DONE
    with pytest.raises(PurgedError):
        repo.read_bytes(committed[0], "p")


@pytest.mark.both_stores
def test_a_purge_from_before_markers_is_resumed_only_if_no_branch_has_its_paths(
    repo: Repository,
) -> None:
    with suppress(CrashError), dies_at(0, LocalStore, ("delete",)):
        repo.purge(["p"])
    (made,) = repo.purges()
    for each in (namespace_of(repo) / "_sparklake" / "purges" / "open").iterdir():
        each.unlink()
    head = commit_all(repo.branch("main"), {"p": SECRET}, "again")
    with pytest.raises(PurgeBlockedError):
        repo.resume_purge(made.id)
    assert repo.read_bytes(head.id, "p") == SECRET
    assert open_purges(store_of(repo)) == []
    commit_all(repo.branch("main"), {"p": None}, "forget")
    assert repo.resume_purge(made.id).state is PurgeState.DONE
    with pytest.raises(PurgedError):
        repo.read_bytes(head.id, "p")


@pytest.mark.both_stores
def test_only_one_purge_runs_at_a_time(repo: Repository) -> None:
    commit_all(repo.branch("main"), {"q": b"q"}, "q")
    commit_all(repo.branch("main"), {"q": None}, "no q")

    def act() -> None:
        with pytest.raises(PurgeRunningError, match="another purge"):
            repo.purge(["q"])

    with before_row(repo, act):  # type: ignore[attr-defined]
        repo.purge(["p"])
    repo.purge(["q"])


@pytest.mark.both_stores
def test_a_purge_expires_no_commit(repo: Repository) -> None:
    repo.settings.set_retention(0)
    first = repo.resolve("main~1")
    commit_all(repo.branch("main"), {"q": b"q"}, "q")
    repo.purge(["p"])
    assert not repo._context.refs.commits.expired([first.id])


@pytest.mark.both_stores
@pytest.mark.parametrize("overtakes", ["purge", "collection"])
def test_an_import_in_flight_checks_the_objects_that_it_adopted(
    repo: Repository, folder: Path, overtakes: str
) -> None:
    """A range written before the fence may name an object of the lake that is deleted since."""
    outside = folder / "outside"
    outside.write_bytes(SECRET)
    found = repo.stat("main~1", "p")
    row = {"path": "p", "size": found.size, "checksum": found.checksum}
    row |= {"content_type": found.content_type, "address": f"file://{outside}"}
    rows = stage_table([row])

    def act() -> None:
        if overtakes == "purge":
            repo.purge(["p"])
        else:
            repo.settings.set_retention(0)
            repo.collect_garbage(grace=timedelta())

    main = repo.branch("main")
    with just_before(type(repo._context.refs.branches), "move", act), suppress(SparklakeError):
        main.import_objects(rows, replace=True)
    for each in repo.objects("main"):
        assert repo.read_bytes("main", each.path) == SECRET
    with suppress(SparklakeError):
        main.import_objects(rows, replace=True)
    assert repo.read_bytes("main", "p") == SECRET


# --- schedules ------------------------------------------------------------------------------------


def run_schedule(seed: int, folder: Path) -> tuple[int, int]:
    """Run one schedule; return the numbers of ended purges and of commits."""
    chance, lake = Random(seed), memory_lake()
    repo = lake.create_repository("repo", str(folder / str(seed)), range_records=2)
    forget_secret(repo)
    purged: list[None] = []
    promised: list[str] = []

    def purge() -> None:
        with suppress(SparklakeError):
            lake.repository("repo").purge(["p"])
            purged.append(None)

    def collect() -> None:
        with suppress(SparklakeError):
            lake.repository("repo").collect_garbage(grace=timedelta())

    def write() -> None:
        own = lake.repository("repo")
        branch = own.create_branch(f"w{uuid4().hex[:8]}", "main")
        for _ in range(chance.randint(1, 2)):
            with suppress(SparklakeError):
                branch.put("p", SECRET)
                branch.commit("again")
                promised.append(branch.name)
                own.merge(branch.name, "main", strategy="source-wins")
                promised.append("main")

    schedule = Schedule(chance)
    with scheduled(schedule):
        schedule.run([purge, write, write, collect][: chance.randint(2, 4)])
    for name in promised:
        assert repo.read_bytes(name, "p") == SECRET
    return len(purged), len(promised)


@pytest.mark.system
@pytest.mark.parametrize("share", range(SHARES))
def test_no_schedule_loses_a_commit(share: int, tmp_path: Path) -> None:
    purged = promised = 0
    for seed in range(share, SCHEDULES, SHARES):
        try:
            ended, kept = run_schedule(seed, tmp_path)
        except BaseException as error:
            raise AssertionError(f"schedule {seed}") from error
        purged, promised = purged + ended, promised + kept
    assert purged, "no purge ever ended"
    assert promised, "nothing was ever committed"
