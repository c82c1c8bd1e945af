"""Round trips to Postgres: few per verb, and no statement with an unknown effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest

from benchmarks.counting import counted_trips
from benchmarks.small_verbs import trips_of, verbs
from sparklake import Repository
from sparklake.errors import ProtectedError, RefStoreUnavailableError
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings
from sparklake.graveler.ports import RefStore
from sparklake.stores.postgres import connect_ref_store, sessions
from sparklake.stores.postgres.connections import Connections
from sparklake.testing.lakes import postgres_lake
from tests.stores.refs.contract import a_record, staged, top
from tests.stores.refs.histories import new_refs
from tests.support.pooler import pooled

_names = count()


@pytest.fixture(scope="module")
def store(shared_dsn: str) -> Iterator[RefStore]:
    with closing(connect_ref_store(shared_dsn)) as opened:
        yield opened


@pytest.fixture
def repo(shared_dsn: str, tmp_path: Path) -> Iterator[Repository]:
    with postgres_lake(shared_dsn) as lake:
        yield lake.create_repository(f"trips-{next(_names)}", str(tmp_path / "namespace"))


@pytest.fixture
def connections(shared_dsn: str) -> Iterator[Connections]:
    with closing(Connections(shared_dsn)) as opened:
        # From here, a transaction starts with its first statement.
        with opened.transaction() as connection:
            connection.execute("SELECT 1")
        yield opened


def test_small_verbs_take_few_round_trips(repo: Repository) -> None:
    main = repo.branch("main")
    main.put("data/part-0000/a", b"1")
    main.commit("base")
    assert {verb: trips_of(prepared) for verb, prepared in verbs(repo).items()} == {
        "put, the first after a commit": 3,
        "put": 2,
        "commit of one object": 5,
        "branch": 6,
        "merge, nothing to merge": 5,
        "merge, one side changed": 5,
        "merge, both sides changed": 5,
    }


def test_a_transaction_without_statements_sends_nothing(connections: Connections) -> None:
    with counted_trips() as trips:
        with connections.transaction():
            pass
        with pytest.raises(KeyError), connections.transaction():
            raise KeyError
    assert trips == []


def test_a_transaction_starts_with_its_first_statement(connections: Connections) -> None:
    with counted_trips() as trips, connections.transaction() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert connection.execute("SHOW lock_timeout").fetchall() == [("1min",)]
    assert [trip.count("BEGIN") for trip in trips] == [1, 0, 0]


def test_an_idle_connection_is_checked_before_use(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_PROVEN_SECONDS", 0.0)
    with counted_trips() as trips, connections.transaction() as connection:
        connection.execute("SELECT 1")
    assert len(trips) == 3


def test_batch_results_are_available_after_the_batch(connections: Connections) -> None:
    with counted_trips() as trips, connections.transaction() as connection:
        with connection.batch(commit=True):
            cursors = [connection.execute("SELECT %s::int", (number,)) for number in range(3)]
        assert [cursor.fetchall() for cursor in cursors] == [[(0,)], [(1,)], [(2,)]]
    assert len(trips) == 1


def test_the_first_error_of_a_batch_rolls_back_everything(
    connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(statements: int) -> None:
        with connections.transaction() as connection, connection.batch(commit=True):
            connection.execute("CREATE TABLE public.half ()")
            connection.execute("SELECT 1 / 0")
            for _ in range(statements):
                connection.execute("SELECT repeat('x', 100000)")

    # With many statements, the error is read before the last one is sent.
    for statements in (0, 1, 300):
        with pytest.raises(Exception, match="division by zero"):
            fail(statements)
        assert connections.fetch("SELECT to_regclass('public.half')", {}) == [(None,)]
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def insert_and_lose_the_session(
    connections: Connections, admin: psycopg.Connection, pid: int
) -> None:
    with connections.transaction() as connection, connection.batch(commit=True):
        assert connection.info.backend_pid == pid
        connection.execute("INSERT INTO public.counted DEFAULT VALUES")
        admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def test_a_batch_that_may_have_run_is_not_repeated(
    connections: Connections, shared_dsn: str
) -> None:
    with psycopg.connect(shared_dsn, autocommit=True) as admin:
        admin.execute("CREATE TABLE public.counted ()")
        with connections.transaction() as connection:
            pid = connection.info.backend_pid
        with pytest.raises(RefStoreUnavailableError):
            insert_and_lose_the_session(connections, admin, pid)
        assert admin.execute("SELECT count(*) FROM public.counted").fetchone() == (0,)
        admin.execute("DROP TABLE public.counted")
    assert connections.fetch("SELECT 1", {}) == [(1,)]


def test_batches_work_through_a_pooler(store: RefStore, shared_dsn: str) -> None:
    uid = new_refs(store, f"lake-{next(_names)}")._uid  # type: ignore[attr-defined]
    with pooled(shared_dsn) as dsn, closing(connect_ref_store(dsn)) as pooled_store:
        refs = pooled_store.refs(uid)
        for number in range(3):
            refs.staging.put("main", [a_record(b"%d" % number)], fence=0)
        assert len(list(refs.staging.rows(refs.staging.seal("main").layers[0].id))) == 3


@pytest.mark.parametrize("rows", [0, 1, 999, 1000, 1001, 10_001])
def test_rows_are_read_in_one_page_or_in_a_stream(store: RefStore, rows: int) -> None:
    refs = new_refs(store, f"lake-{next(_names)}")
    refs.staging.put("main", [a_record(b"first")], fence=0)
    refs.staging.put("main", [a_record(b"%05d" % number) for number in range(rows)], fence=0)
    layer = top(refs).id
    assert len(list(refs.staging.rows(layer))) == rows + 1
    assert [key for key, _ in refs.staging.rows(layer, b"0", b"1")] == [
        b"%05d" % number for number in range(rows)
    ]
    assert list(refs.staging.rows(layer, b"nothing")) == []


def test_a_rejected_put_or_seal_leaves_no_layer(store: RefStore) -> None:
    refs = new_refs(store, f"lake-{next(_names)}")
    refs.staging.put("main", [a_record(b"a")], fence=0)
    protected = RepositorySettings(protection=(ProtectionRule("main"),))
    refs.settings.change(lambda _: protected)
    before = refs.branches.find("main")
    assert before is not None
    with pytest.raises(ProtectedError):
        refs.staging.put("main", [a_record(b"b")], fence=0)
    with pytest.raises(ProtectedError):
        refs.staging.seal("main", Action.COMMIT)
    assert refs.branches.find("main") == before
    assert staged(refs) == dict([a_record(b"a")])


def test_an_empty_put_opens_no_layer(store: RefStore) -> None:
    refs = new_refs(store, f"lake-{next(_names)}")
    refs.staging.put("main", [], fence=0)
    state = refs.branches.find("main")
    assert state is not None
    assert state.layers == ()
