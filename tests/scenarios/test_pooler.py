"""Verbs of every kind at once behind PgBouncer, in transaction mode, with few sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from campaigns.postgres import fresh_database
from sparklake import Repository
from sparklake.errors import (
    CollectionRunningError,
    CollectionStartedError,
    IdempotencyKeyInUseError,
    RaceLostError,
    RefStoreUnavailableError,
)
from sparklake.graveler.guards import Action
from sparklake.graveler.records import tombstone
from sparklake.stores.postgres import connect_ref_store, leases, sessions
from sparklake.stores.postgres.connections import Connections
from sparklake.testing.lakes import contents, postgres_lake
from tests.stores.refs.histories import new_refs
from tests.support.pooler import pooled

ROWS = 1_100
"""More staged rows than one statement reads."""

BUSY = (CollectionRunningError, CollectionStartedError, RaceLostError)
"""What may happen beside a collection, and to merges into one branch."""


@pytest.fixture(scope="module")
def server(server_dsn: str) -> Iterator[str]:
    with fresh_database(server_dsn) as dsn, closing(connect_ref_store(dsn)):
        yield dsn


class Worker:
    """One writer with a branch of its own. It opens the lake like another process."""

    def __init__(self, repo: Repository, number: int) -> None:
        self.repo = repo
        self.number = number
        self.name = f"branch-{number}"
        self.path = f"folder-{number}"

    def steps(self) -> list[Callable[[], object]]:
        repo, name, path = self.repo, self.name, self.path
        branch, main = repo.branch(name), repo.branch("main")
        keyed: list[Callable[[], object]] = [
            lambda: branch.put(f"{path}/a", b"1", once=f"put {path}"),
            lambda: branch.commit("one", once=f"commit {path}"),
            lambda: repo.merge(name, "main"),
        ]
        if self.number >= 8:
            return [*keyed, *self.heavy_steps()]
        return [
            *keyed,
            self.stage_many,
            lambda: branch.commit("many"),
            lambda: repo.merge(name, "main", once=f"merge {path}"),
            lambda: main.put(f"{path}/direct", b"2"),
            lambda: main.commit("direct", if_needed=True),
            lambda: repo.create_tag(f"tag-{path}", name),
            lambda: list(repo.objects("main", path)),
            lambda: [repo.log("main"), repo.blame("main", path), repo.operations()],
            lambda: list(repo.diff("main", name)),
            lambda: repo.settings.protect(f"{path}-*", block=[Action.RESET]),
            *self.heavy_steps(),
            lambda: repo.delete_branch(name, discard_staged=True),
        ]

    def heavy_steps(self) -> list[Callable[[], object]]:
        """Return verbs that read the whole repository; of many workers, each has one."""
        repo = self.repo
        steps: list[Callable[[], object]] = [
            lambda: repo.collect_garbage(grace=timedelta()),
            lambda: repo.collect_garbage(grace=timedelta(), dry_run=True),
            repo.dump_refs,
            lambda: repo.purge([f"{self.path}/none"], dry_run=True),
            lambda: repo.check("content"),
        ]
        return steps if self.number < 4 else [steps[self.number % len(steps)]]

    def stage_many(self) -> None:
        """Stage rows, and read two layers of them at once."""
        branch, staging = self.repo.branch(self.name), self.repo._context.refs.staging
        for layer in range(2):
            keys = (f"{self.path}/{layer}-{number:05}" for number in range(ROWS))
            staging.put(self.name, [tombstone(key.encode()) for key in keys], fence=None)
            layers = staging.seal(self.name).layers
        staged = [staging.rows(each.id) for each in layers]
        assert sum(1 for _ in zip(*staged, strict=True)) == ROWS
        branch.put(f"{self.path}/b", b"2")


def work(dsn: str, name: str, number: int, start: threading.Barrier) -> list[Exception]:
    """Run all steps of a worker; return what stopped some of them."""
    errors = list[Exception]()
    with postgres_lake(dsn) as lake:
        repo = lake.repository(name)
        repo.create_branch(f"branch-{number}", "main")
        start.wait()
        for step in Worker(repo, number).steps():
            try:
                step()
            except BUSY as error:
                errors.append(error)
    return errors


@pytest.mark.parametrize(
    "size",
    [
        *(1, 2),
        pytest.param(4, marks=pytest.mark.system),
        pytest.param(20, marks=pytest.mark.exhaustive),
    ],
)
def test_four_times_as_many_verbs_as_sessions_all_finish(
    server: str, tmp_path: Path, size: int
) -> None:
    workers = 4 * size
    start = threading.Barrier(workers)
    # Before a deadlock would be resolved by time, it is an error.
    with pooled(server, size, query_wait_timeout=30) as dsn, ThreadPoolExecutor(workers) as pool:
        with postgres_lake(dsn) as lake:
            repo = lake.create_repository(f"pool-{size}", str(tmp_path / "namespace"))
            repo.branch("main").put("first", b"1")
            repo.branch("main").commit("first")
        runs = [pool.submit(work, dsn, repo.name, each, start) for each in range(workers)]
        errors = [error for each in runs for error in each.result()]
        with postgres_lake(dsn) as lake:
            repo = lake.repository(repo.name)
            assert repo.check("content").is_healthy
            merged = contents(repo, "main")
    lost = [each for each in errors if not isinstance(each, CollectionRunningError)]
    full = min(workers, 8)
    assert len(merged) + len(lost) >= 1 + 3 * full + (workers - full)
    assert not [each for each in lost if isinstance(each, IdempotencyKeyInUseError)]


# --- waits for a connection


def test_a_wait_for_a_connection_ends_and_tells_of_the_pool(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pooled(server, 1) as dsn, closing(Connections(dsn)) as used:
        assert used.fetch("SELECT 1", {}) == [(1,)]
        with psycopg.connect(dsn) as other:
            other.execute("SELECT 1")
            monkeypatch.setattr(sessions, "POOL_SECONDS", 0.3)
            with pytest.raises(RefStoreUnavailableError, match="query_wait_timeout"):
                used.fetch("SELECT 1", {})
            with (
                pytest.raises(RefStoreUnavailableError, match="default_pool_size"),
                used.transaction(),
            ):
                pass
        monkeypatch.setattr(sessions, "POOL_SECONDS", 60.0)
        assert used.fetch("SELECT 1", {}) == [(1,)]


def test_the_limit_of_a_pooler_itself_is_told_alike(server: str) -> None:
    with pooled(server, 1, query_wait_timeout=1) as dsn, closing(Connections(dsn)) as used:
        other = psycopg.connect(dsn)
        with other:
            other.execute("SELECT 1")
            with pytest.raises(RefStoreUnavailableError, match="had no free connection"):
                used.fetch("SELECT 1", {})


# --- leases


def test_a_lost_lease_is_noticed_and_its_queue_goes_on(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder behind a pooler is suspended, so that it renews nothing."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(leases.Lease, "keep", lambda *_: None)
    with pooled(server, 2) as dsn, closing(connect_ref_store(dsn)) as store:
        collections = new_refs(store, "suspended").collections
        with collections.alone() as check_held:
            check_held()
            with pytest.raises(CollectionRunningError), collections.alone():
                pass
            time.sleep(0.6)
            with collections.alone() as check_other:
                check_other()
                with pytest.raises(CollectionRunningError):
                    check_held()


def test_leases_are_renewed_and_first_come_first_served(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.3)
    order = list[int]()
    with pooled(server, 2) as dsn, closing(Connections(dsn)) as used, ThreadPoolExecutor(3) as pool:

        def queue(number: int) -> None:
            with leases.leased(used, "queue", 60) as lease:
                assert lease is not None
                order.append(number)

        with leases.leased(used, "queue", 60):
            waiting = []
            for number in range(3):
                waiting.append(pool.submit(queue, number))
                while used.fetch("SELECT count(*) FROM sparklake.leases", {}) != [(number + 2,)]:
                    time.sleep(0.01)
            time.sleep(1)
            assert order == []
        for each in waiting:
            each.result(60)
    assert order == [0, 1, 2]


def test_the_lease_of_a_dead_process_ends_with_its_session(server: str) -> None:
    with closing(Connections(server)) as dead, closing(Connections(server)) as used:
        lease = leases.Lease.request(dead, "dead", waits=True)
        assert lease is not None
        assert leases.is_leased(used, "dead")
        dead.close()
        with leases.leased(used, "dead", 60) as next_one:
            assert next_one is not None
