"""Waits for locks of other sessions: bounded, reported, and without any effect if they end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from sparklake import Repository
from sparklake.errors import LockHeldError, RefStoreUnavailableError
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.ports import RefStore, RepositoryRefs, TagInfo
from sparklake.stores.postgres import connect_ref_store, connections, sessions
from sparklake.stores.postgres.migrations import _LOCK
from sparklake.testing.lakes import postgres_lake
from tests.stores.refs.contract import a_record
from tests.stores.refs.histories import FIRST, a_commit, a_move, a_repository, new_refs
from tests.support.pooler import pooled

SECRET = "s3cret"
_names = count()


@pytest.fixture(scope="module")
def shared_store(shared_dsn: str) -> Iterator[RefStore]:
    with closing(connect_ref_store(shared_dsn)) as opened:
        yield opened


@pytest.fixture
def refs(shared_store: RefStore) -> RepositoryRefs:
    return new_refs(shared_store, f"lake-{next(_names)}")


@pytest.fixture
def repo(shared_dsn: str, tmp_path: Path) -> Iterator[Repository]:
    with postgres_lake(shared_dsn) as lake:
        yield lake.create_repository(f"repo-{next(_names)}", str(tmp_path / "namespace"))


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every wait for a lock end soon."""
    monkeypatch.setattr(connections, "LOCK_SECONDS", 0.12)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Report waits for locks at once, and return a function that waits for the first report."""
    monkeypatch.setattr(sessions._WAITS, "_say_seconds", 0.1)
    arrival, messages = Event(), list[str]()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())
            arrival.set()

    def first() -> str:
        assert arrival.wait(30)
        return messages[0]

    listener = Listener()
    sessions._LOG.addHandler(listener)
    yield first
    sessions._LOG.removeHandler(listener)


@contextmanager
def locked(dsn: str, statement: str, *values: object) -> Iterator[psycopg.Connection]:
    """Hold the locks of a statement in another session."""
    holder_dsn = make_conninfo(dsn, application_name="somebody's psql")
    with psycopg.connect(holder_dsn, autocommit=True) as holder:
        holder.execute("BEGIN")
        holder.execute(statement.encode(), values)
        yield holder
        if not holder.closed:
            holder.execute("ROLLBACK")


def row_of_main(refs: Any) -> tuple[str, str]:
    statement = (
        f"SELECT '{SECRET}' FROM sparklake.branches"
        " WHERE repository_uid = %s AND name = 'main' FOR UPDATE"
    )
    return statement, refs._uid


# --- every wait is bounded

BRANCH = "SELECT 1 FROM sparklake.branches WHERE repository_uid = %s AND name = 'main' FOR UPDATE"
REPOSITORY = "SELECT 1 FROM sparklake.repositories WHERE uid = %s FOR UPDATE"
LAYERS = "SELECT 1 FROM sparklake.layers WHERE repository_uid = %s FOR UPDATE"
NAME = "SELECT pg_advisory_xact_lock(hashtextextended(%s || ' ref new', 0))"


def begin_collection(refs: RepositoryRefs) -> object:
    return refs.collections.begin()


def change_settings(refs: RepositoryRefs) -> object:
    return refs.settings.change(lambda _: RepositorySettings(metadata={"a": "b"}))


@pytest.mark.parametrize(
    ("statement", "change"),
    [
        (BRANCH, lambda refs: refs.branches.move(a_move(FIRST, a_commit()))),
        (BRANCH, lambda refs: refs.branches.delete("main", "ann", discard_staged=True)),
        (BRANCH, lambda refs: refs.branches.set_lifetime("main", timedelta(1))),
        (BRANCH, lambda refs: refs.staging.seal("main")),
        (BRANCH, lambda refs: refs.staging.reset("main")),
        (BRANCH, begin_collection),
        (LAYERS, lambda refs: refs.staging.put("main", [a_record(b"b")], fence=0)),
        (LAYERS, lambda refs: refs.staging.seal("main")),
        (REPOSITORY, begin_collection),
        (REPOSITORY, change_settings),
        (REPOSITORY, lambda refs: refs.branches.create("new", FIRST.id, "ann")),
        (REPOSITORY, lambda refs: refs.tags.create(TagInfo("new", FIRST.id), "ann")),
        (REPOSITORY, lambda refs: refs.writes.begin("w", "data/x", "main", "ann")),
        (BRANCH, lambda refs: refs.branches.rename("main", "new", "ann")),
        (LAYERS, lambda refs: refs.branches.rename("main", "new", "ann")),
        (NAME, lambda refs: refs.branches.create("new", FIRST.id, "ann")),
        (NAME, lambda refs: refs.tags.create(TagInfo("new", FIRST.id), "ann")),
    ],
)
def test_a_change_times_out_and_succeeds_after_the_lock_is_released(
    refs: Any, shared_dsn: str, soon: None, statement: str, change: Callable[[Any], object]
) -> None:
    refs.staging.put("main", [a_record(b"a")], fence=0)
    before = refs.snapshot(), refs.operations.list()
    with locked(shared_dsn, statement, refs._uid):
        with pytest.raises(LockHeldError, match="rolled back") as caught:
            change(refs)
        assert caught.value.exit_code == 12
        assert (refs.snapshot(), refs.operations.list()) == before
    change(refs)


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.create_repository(a_repository("locked"), FIRST, "ann"),
        lambda store: store.delete_repository("lake"),
    ],
)
def test_a_locked_table_blocks_nobody_forever(
    shared_store: RefStore, shared_dsn: str, soon: None, use: Callable[[RefStore], object]
) -> None:
    with locked(shared_dsn, "LOCK TABLE sparklake.repositories"), pytest.raises(LockHeldError):
        use(shared_store)


@pytest.mark.usefixtures("soon")
def test_a_migration_times_out_behind_another_one(empty_dsn: str) -> None:
    with locked(empty_dsn, "SELECT pg_advisory_xact_lock(%s)", _LOCK), pytest.raises(LockHeldError):
        connect_ref_store(empty_dsn)
    connect_ref_store(empty_dsn).close()


def test_a_waiting_collection_does_not_block_others(
    refs: Any, shared_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives its locks up from time to time, so only the locked branch stands still."""
    monkeypatch.setattr(connections, "LOCK_SECONDS", 6.0)
    refs.branches.create("zz", FIRST.id, "ann")
    statement = BRANCH.replace("main", "zz")
    with ThreadPoolExecutor(1) as pool:
        with locked(shared_dsn, statement, refs._uid) as holder:
            collecting = pool.submit(begin_collection, refs)
            await_lock_wait(holder)
            head = FIRST
            for _ in range(2):
                commit = a_commit(head)
                refs.branches.move(a_move(head, commit))
                head = commit
            assert not collecting.done()
        collecting.result(30)


# --- and reported


def test_a_wait_reports_the_holder_without_its_values(
    refs: Any, shared_dsn: str, reports: Callable[[], str]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with locked(shared_dsn, *row_of_main(refs)) as holder:
            pid = holder.info.backend_pid
            sealing = pool.submit(refs.staging.seal, "main")
            message = reports()
        sealing.result(30)
    assert f"held by session {pid} (user " in message
    assert "application somebody's psql, idle in transaction for " in message
    assert message.endswith("latest statement: SELECT)")
    assert SECRET not in message


def test_the_holder_is_reported_to_every_waiter_and_in_the_error(
    refs: Any, shared_dsn: str, reports: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOCK_SECONDS", 4.0)
    with locked(shared_dsn, *row_of_main(refs)) as holder, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(refs.staging.seal, "main") for _ in range(2)]
        assert f"held by session {holder.info.backend_pid} " in reports()
        pid, errors = holder.info.backend_pid, [each.exception(30) for each in waiting]
    for error in errors:
        assert isinstance(error, LockHeldError)
        assert f"held by session {pid} (user" in str(error)
        assert SECRET not in str(error)


def test_waits_are_bounded_and_reported_through_a_pooler(
    refs: Any, shared_dsn: str, reports: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pooled(shared_dsn) as dsn, closing(connect_ref_store(dsn)) as store:
        assert store.id()
        through = store.refs(refs._uid)
        with ThreadPoolExecutor(1) as pool:
            with locked(shared_dsn, *row_of_main(refs)) as holder:
                sealing = pool.submit(through.staging.seal, "main")
                assert f"held by session {holder.info.backend_pid} " in reports()
            sealing.result(30)
        monkeypatch.setattr(connections, "LOCK_SECONDS", 0.1)
        with locked(shared_dsn, *row_of_main(refs)), pytest.raises(LockHeldError):
            through.staging.seal("main")
    with psycopg.connect(shared_dsn) as connection:
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)


def test_slow_statements_without_a_lock_are_not_reported(
    shared_dsn: str, reports: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    used = connections.Connections(shared_dsn)
    with closing(used):
        used.fetch("SELECT pg_sleep(1)", {})
    assert not caplog.messages


def test_a_waiting_read_is_reported_without_its_values(
    shared_store: RefStore, shared_dsn: str, reports: Callable[[], str]
) -> None:
    query = "SELECT %(value)s FROM sparklake.repositories"
    with ThreadPoolExecutor(1) as pool, closing(connections.Connections(shared_dsn)) as used:
        with locked(shared_dsn, "LOCK TABLE sparklake.repositories") as holder:
            reading = pool.submit(used.fetch, query, {"value": SECRET})
            session = await_lock_wait(holder)
            assert f"held by session {holder.info.backend_pid} " in reports()
            with psycopg.connect(shared_dsn) as other:
                activity = "SELECT query FROM pg_stat_activity WHERE pid = %s"
                assert other.execute(activity, [session]).fetchone() == (
                    "SELECT $1 FROM sparklake.repositories",
                )
        assert reading.result(30)[0] == (SECRET,)


# --- sessions that end while they wait


def await_lock_wait(holder: psycopg.Connection) -> int:
    """Return the session in the holder's queue."""
    query = "SELECT pid FROM pg_locks WHERE NOT granted AND %s = ANY (pg_blocking_pids(pid))"
    for _ in range(10_000):
        row = holder.execute(query, (holder.info.backend_pid,)).fetchone()
        if row is not None:
            return int(row[0])
    raise AssertionError("nobody waits")


def terminated_while_waiting(
    dsn: str, refs: Any, change: Callable[[], object]
) -> BaseException | None:
    """Run a change that waits for a branch, terminate its session and return the error."""
    with ThreadPoolExecutor(1) as pool, locked(dsn, *row_of_main(refs)) as holder:
        changing: Future[object] = pool.submit(change)
        waiter = await_lock_wait(holder)
        holder.execute("SELECT pg_terminate_backend(%s)", (waiter,))
        return changing.exception(30)


def test_a_commit_terminated_during_its_wait_commits_once(
    repo: Repository, shared_dsn: str
) -> None:
    main, refs = repo.branch("main"), repo._context.refs
    main.put("a", b"1")
    before = refs.snapshot()

    def commit() -> object:
        return main.commit("add a", once="commit-a")

    error = terminated_while_waiting(shared_dsn, refs, commit)
    assert isinstance(error, RefStoreUnavailableError)
    assert refs.snapshot() == before
    result = commit()
    assert commit() == result
    assert [each.verb for each in refs.operations.list()] == ["commit", "create-repository"]


def test_a_collection_terminated_during_its_wait_deletes_nothing(
    repo: Repository, shared_dsn: str
) -> None:
    main, refs = repo.branch("main"), repo._context.refs
    main.put("kept", b"1")
    main.commit("keep")
    main.put("gone", b"2")
    main.reset()
    before = refs.snapshot()

    def collect() -> Any:
        return repo.collect_garbage(grace=timedelta()).run

    error = terminated_while_waiting(shared_dsn, refs, collect)
    assert isinstance(error, RefStoreUnavailableError)
    assert refs.snapshot() == before
    assert collect().objects == 1
    assert collect().objects == 0
    assert repo.check("content").is_healthy
