"""A collection that was suspended, and has lost its lock, beside the one that ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from threading import Event
from unittest import mock
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from sparklake import Lake, Repository
from sparklake.errors import CollectionRunningError, RaceLostError, StoreUnreachableError
from sparklake.graveler.ids import MetaRangeId
from sparklake.namespace.markers import is_sweep_open, open_markers
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import commit_all, contents, namespace_of
from sparklake.verbs.gc import collect
from sparklake.verbs.gc.runs import Sweep
from tests.support.interleaved_calls import just_before

ROOT = Path(__file__).parents[3]
NO_GRACE = timedelta()
FILES = {f"f{number:02}": b"%d" % number for number in range(40)}


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    """Return a repository whose ranges of all files are left over from a lost race."""
    name = f"suspended-{uuid4().hex}"
    return with_leftovers(any_lake.create_repository(name, str(folder / name)))


def with_leftovers(repo: Repository) -> Repository:
    main = repo.branch("main")
    main.put_many(FILES)
    branches = type(repo._context.refs.branches)
    with just_before(branches, "move", main.reset), pytest.raises(RaceLostError):
        main.commit("in vain")
    return repo


def objects_of(repo: Repository) -> set[str]:
    return {each.name for each in (namespace_of(repo) / "data").iterdir()}


def again(repo: Repository) -> None:
    """Commit the same files again, and check that all of them can be read."""
    commit_all(repo.branch("main"), FILES, "again")
    assert contents(repo, "main") == FILES


@contextmanager
def meanwhile(
    repo: Repository, owner: type, name: str, act: Callable[[], object]
) -> Iterator[None]:
    """Run `act` once before a call of a collection whose lock was lost."""
    locks = mock.patch.object(type(repo._context.refs.collections), "alone", nullcontext)
    with locks, just_before(owner, name, act):
        yield


@pytest.mark.both_stores
@pytest.mark.parametrize("block", [1, 1000], ids=["between two blocks", "within a block"])
def test_a_late_sweep_deletes_no_object_of_a_head(repo: Repository, block: int) -> None:
    def others() -> None:
        repo.collect_garbage(grace=NO_GRACE)
        assert objects_of(repo) == set()
        again(repo)

    with (
        mock.patch("sparklake.udfs.gc._DELETED_AT_ONCE", block),
        meanwhile(repo, LocalStore, "delete", others),
        pytest.raises(CollectionRunningError, match="another process closed it"),
    ):
        repo.collect_garbage(grace=NO_GRACE)
    assert contents(repo, "main") == FILES
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 0
    assert contents(repo, "main") == FILES


@pytest.mark.both_stores
def test_a_sweep_that_was_ended_before_its_first_deletion_deletes_nothing(repo: Repository) -> None:
    before = objects_of(repo)

    def others() -> None:
        repo.collect_garbage(grace=timedelta(days=1))  # It keeps all objects: they are young.
        again(repo)

    with (
        meanwhile(repo, Sweep, "decide", others),
        pytest.raises(CollectionRunningError, match="another process closed it"),
    ):
        repo.collect_garbage(grace=NO_GRACE)
    assert before <= objects_of(repo)
    assert contents(repo, "main") == FILES


def test_a_lost_answer_to_a_claim_ends_nothing(repo: Repository) -> None:
    claim = Sweep.decide

    def twice(sweep: Sweep, garbage: MetaRangeId) -> None:
        claim(sweep, garbage)
        claim(sweep, garbage)

    with mock.patch.object(Sweep, "decide", twice):
        assert repo.collect_garbage(grace=NO_GRACE).run.objects == len(FILES)


@pytest.mark.both_stores
def test_a_sweep_whose_claim_had_no_answer_stays_open_until_its_list_is_deleted(
    repo: Repository,
) -> None:
    """Another collection, which has found the claim, may be about to delete the list."""
    claim, claimed, completing = Sweep.decide, Event(), Event()

    def unanswered(sweep: Sweep, garbage: MetaRangeId) -> None:
        claim(sweep, garbage)
        claimed.set()
        assert completing.wait(60)
        raise StoreUnreachableError("the answer was lost")

    def fails() -> None:
        with mock.patch.object(Sweep, "decide", unanswered), pytest.raises(StoreUnreachableError):
            repo.collect_garbage(grace=NO_GRACE)

    def others() -> None:
        completing.set()
        first.result(60)
        with pytest.raises(CollectionRunningError):
            again(repo)

    with ThreadPoolExecutor() as threads, meanwhile(repo, LocalStore, "delete", others):
        first = threads.submit(fails)
        assert claimed.wait(60)
        repo.collect_garbage(grace=NO_GRACE)
    again(repo)
    repo.collect_garbage(grace=NO_GRACE)
    assert contents(repo, "main") == FILES


def test_a_collection_that_fails_leaves_the_marker_of_another(repo: Repository) -> None:
    store = repo._context.store

    def others() -> None:
        Sweep.open(store, "20260101T000000Z-00000000")
        raise ZeroDivisionError

    with just_before(collect._GcWork, "mark", others), pytest.raises(ZeroDivisionError):
        repo.collect_garbage(grace=NO_GRACE)
    assert len(open_markers(store)) == 1
    repo.collect_garbage(grace=NO_GRACE)
    assert not is_sweep_open(store)


@pytest.mark.system
def test_a_process_that_was_stopped_deletes_no_object_of_a_head(
    lake: Lake, dsn: str, folder: Path
) -> None:
    """It is stopped by SIGSTOP in its sweep, and the server ends its sessions."""
    name = f"stopped-{os.getpid()}"
    repo = with_leftovers(lake.create_repository(name, str(folder / name)))
    own = make_conninfo(dsn, application_name=name)
    command = [sys.executable, "-m", "tests.support.suspended_collector", "gc", "run"]
    options = [f"lakefs://{name}", "--grace", "0h", "--yes", "--dsn", own]
    with subprocess.Popen(
        [*command, *options], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert 0 < len(objects_of(repo)) < len(FILES)
        with psycopg.connect(dsn, autocommit=True) as admin:
            ended = admin.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = %s",
                (name,),
            ).fetchall()
        assert ended
        repo.collect_garbage(grace=NO_GRACE)
        assert objects_of(repo) == set()
        again(repo)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate()
    assert process.returncode == 5
    assert "another process closed it" in errors
    assert contents(repo, "main") == FILES
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 0
    assert contents(repo, "main") == FILES
