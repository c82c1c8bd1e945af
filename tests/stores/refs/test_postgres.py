"""The ref store in Postgres keeps the contract, its schema, its secrets and its connections."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from contextlib import closing
from pathlib import Path
from threading import Event

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from campaigns.postgres import fresh_database
from sparklake.errors import (
    InvalidInputError,
    LakeClosedError,
    RaceLostError,
    RefStoreUnavailableError,
    SparklakeError,
)
from sparklake.graveler.ports import BranchState, RefsSnapshot, RefStore
from sparklake.stores.postgres import connect_ref_store
from sparklake.stores.postgres.commits import BULK_COMMITS
from sparklake.stores.postgres.connections import Connections
from sparklake.stores.postgres.migrations import known_migrations
from sparklake.stores.postgres.staging import prefix_end
from tests.stores.refs import test_retention
from tests.stores.refs.contract import RefStoreContract, a_record, staged, top
from tests.stores.refs.histories import FIRST, a_commit, a_move, a_repository, new_refs
from tests.stores.refs.once_contract import OnceContract
from tests.stores.refs.writes_contract import WritesContract

DOCUMENT = Path(__file__).parents[3] / "docs" / "postgres.md"
SECRET = "s3cr3t-w0rd"  # the password that no error may show

OPEN = """
import sys
from sparklake.stores.postgres import connect_ref_store
sys.stdin.readline()
connect_ref_store(sys.argv[1]).close()
"""

FORK = """
import os, sys
from sparklake.stores.postgres.connections import Connections
connections = Connections(sys.argv[1])
def session():
    return connections.fetch("SELECT pg_backend_pid()", {})
before = session()
for _ in range(2):
    child = os.fork()
    if child == 0:
        if _ == 0:
            assert session() != before
        connections.close()
        sys.exit()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert session() == before
connections.close()
"""


@pytest.fixture(scope="module")
def shared_dsn(server_dsn: str) -> Iterator[str]:
    with fresh_database(server_dsn) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def shared_store(shared_dsn: str) -> Iterator[RefStore]:
    store = connect_ref_store(shared_dsn)
    yield store
    store.close()


@pytest.fixture
def store(shared_store: RefStore) -> RefStore:
    for info in shared_store.list_repositories():
        shared_store.delete_repository(info.name)
    return shared_store


@pytest.fixture
def admin(shared_dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shared_dsn, autocommit=True) as connection:
        yield connection


class TestPostgresRefStore(RefStoreContract, WritesContract, OnceContract):
    """Takes the fixture `store` of this module."""


def end_sessions(admin: psycopg.Connection) -> None:
    """End all sessions of the store, like a server restart."""
    admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_a_server_restart_releases_a_slot_and_keeps_its_changes(
    store: RefStore, admin: psycopg.Connection
) -> None:
    refs, commit = new_refs(store), a_commit()
    with refs.branches.turn("main", 60):
        refs.branches.move(a_move(FIRST, commit))
        end_sessions(admin)
    assert not refs.branches.is_turn_held("main")
    state = refs.branches.find("main")
    assert state is not None
    assert state.commit_id == commit.id


# --- remaining rows


def test_no_staged_row_is_left_behind(store: RefStore, admin: psycopg.Connection) -> None:
    refs = new_refs(store)

    def delete(branch: str) -> None:
        refs.branches.delete(branch, "ann", discard_staged=True)

    for action in (refs.staging.reset, delete):
        refs.branches.create("dev", FIRST.id, "ann")
        refs.staging.put("dev", [a_record(b"1")], fence=0)
        refs.staging.seal("dev")
        refs.staging.put("dev", [a_record(b"2")], fence=0)
        action("dev")
        assert admin.execute("SELECT count(*) FROM sparklake.staged_rows").fetchone() == (0,)
        if refs.branches.find("dev"):
            refs.branches.delete("dev", "ann")
    refs.staging.put("main", [a_record(b"1")], fence=0)
    layer = refs.staging.seal("main").layers[0]
    refs.branches.move(a_move(FIRST, a_commit(), layers=[layer.id]))
    assert admin.execute("SELECT count(*) FROM sparklake.staged_rows").fetchone() == (0,)


def test_a_bulk_load_of_commits_updates_the_statistics(empty_dsn: str) -> None:
    line = [FIRST]
    for _ in range(BULK_COMMITS - 1):
        line.append(a_commit(line[-1]))
    loaded = RefsSnapshot((BranchState("main", line[-1].id),), (), tuple(line))
    size = "SELECT reltuples::int FROM pg_class WHERE oid = 'sparklake.commits'::regclass"
    columns = "SELECT count(*) FROM pg_stats WHERE schemaname = 'sparklake' AND attname = 'parents'"
    store = connect_ref_store(empty_dsn)
    with closing(store), psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute("ALTER TABLE sparklake.commits SET (autovacuum_enabled = off)")
        new_refs(store)
        assert admin.execute(size).fetchone() == (-1,)
        store.restore_repository(a_repository("loaded"), loaded, "ann")
        assert admin.execute(size).fetchone() == (1 + BULK_COMMITS,)
        assert admin.execute(columns).fetchone() == (1,)


def test_a_running_put_finishes_before_its_repository_is_deleted(
    store: RefStore, admin: psycopg.Connection
) -> None:
    refs = new_refs(store, "busy")
    refs.staging.put("main", [a_record(b"0")], fence=0)
    stop = Event()

    def write() -> None:
        while not stop.is_set():
            refs.staging.put("main", [a_record(b"%d" % number) for number in range(50)], fence=0)

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write) for _ in range(2)]
        try:
            store.delete_repository("busy")
        finally:
            stop.set()
        assert {type(writer.exception()).__name__ for writer in writers} <= {
            "NoneType",
            "RefNotFoundError",
        }
    assert admin.execute("SELECT count(*) FROM sparklake.staged_rows").fetchone() == (0,)
    assert admin.execute("SELECT count(*) FROM sparklake.layers").fetchone() == (0,)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sparklake.operations SET who = 'eve'",
        "DELETE FROM sparklake.operations",
        "TRUNCATE sparklake.operations",
    ],
)
def test_the_log_only_grows(store: RefStore, admin: psycopg.Connection, statement: str) -> None:
    refs = new_refs(store)
    with pytest.raises(psycopg.errors.RaiseException, match="only grows"):
        admin.execute(statement.encode())
    assert [line.who for line in refs.operations.list()] == ["ann"]


def test_a_seal_waits_for_a_running_write(store: RefStore, admin: psycopg.Connection) -> None:
    refs = new_refs(store)
    refs.staging.put("main", [a_record(b"1")], fence=0)
    admin.execute("BEGIN")
    admin.execute("SELECT 1 FROM sparklake.layers WHERE id = %s FOR SHARE", (top(refs).id,))
    with ThreadPoolExecutor(1) as pool:
        sealing = pool.submit(refs.staging.seal, "main")
        with pytest.raises(NotDoneError):
            sealing.result(timeout=0.3)
        admin.execute("ROLLBACK")
        assert sealing.result(timeout=10).layers[0].sealed


def test_text_with_nul_is_invalid_input(store: RefStore) -> None:
    refs = new_refs(store)
    with pytest.raises(InvalidInputError, match="NUL"):
        refs.branches.move(a_move(FIRST, a_commit(message="a\0b")))
    assert len(refs.operations.list()) == 1


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"", None), (b"a", b"b"), (b"a\xff", b"b"), (b"\xff\xff", None), (b"a\x00", b"a\x01")],
)
def test_a_prefix_ends_before_the_next_key(prefix: bytes, end: bytes | None) -> None:
    assert prefix_end(prefix) == end


# --- migrations


def applied(dsn: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT version, applied FROM sparklake.schema_migrations ORDER BY version"
        ).fetchall()


def test_migrations_are_numbered_without_gaps() -> None:
    versions = [migration.version for migration in known_migrations()]
    assert versions == list(range(1, len(versions) + 1))


def test_migrations_are_applied_once(empty_dsn: str) -> None:
    connect_ref_store(empty_dsn).close()
    first = applied(empty_dsn)
    connect_ref_store(empty_dsn).close()
    assert applied(empty_dsn) == first
    assert [version for version, _ in first] == [each.version for each in known_migrations()]


def test_concurrent_processes_migrate_once(empty_dsn: str) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", OPEN, empty_dsn], stdin=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0]
    assert len(applied(empty_dsn)) == len(known_migrations())


def test_concurrent_threads_migrate_once(empty_dsn: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        for store in pool.map(connect_ref_store, [empty_dsn] * 4):
            store.close()
    assert len(applied(empty_dsn)) == len(known_migrations())


def test_a_newer_schema_is_rejected(empty_dsn: str) -> None:
    connect_ref_store(empty_dsn).close()
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(
            "INSERT INTO sparklake.schema_migrations (version, name) VALUES (1000, 'later')"
        )
    with pytest.raises(RefStoreUnavailableError, match=r"version 1000.*upgrade sparklake"):
        connect_ref_store(empty_dsn)


def test_other_schemas_of_the_database_are_unchanged(empty_dsn: str) -> None:
    query = (
        "SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname NOT IN ('sparklake', 'pg_toast') ORDER BY 1, 2"
    )
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE branches (mine text)")
        before = connection.execute(query).fetchall()
        connect_ref_store(empty_dsn).close()
        assert connection.execute(query).fetchall() == before


def test_the_documented_permissions_suffice(empty_dsn: str) -> None:
    roles, grants = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    owner, app = (make_conninfo(empty_dsn, user=f"sparklake_{name}") for name in ("owner", "app"))
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(roles.encode())
        try:
            with pytest.raises(RefStoreUnavailableError, match="permission denied"):
                connect_ref_store(app)
            connect_ref_store(owner).close()
            connection.execute(grants.encode())
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'sparklake'"
            ).fetchall()
            assert {each for (each,) in tables} == set(re.findall(r"sparklake\.(\w+)", grants))
            contract, writes, once = RefStoreContract(), WritesContract(), OnceContract()
            store = connect_ref_store(app)
            contract.test_hook_runs_are_deleted_with_their_repository(
                store, new_refs(store, "zero")
            )
            contract.test_a_recreated_repository_starts_empty(store)
            contract.test_a_move_removes_exactly_the_applied_layers(new_refs(store, "one"))
            contract.test_tags_are_created_and_deleted(new_refs(store, "two"))
            contract.test_a_reset_drops_every_layer(new_refs(store, "three"))
            contract.test_purges_are_listed_newest_first(store, new_refs(store, "four"))
            once.test_an_expired_key_can_be_used_again_and_is_cleaned_up(new_refs(store, "zz"))
            writes.test_a_write_is_done_when_its_run_is_staged(new_refs(store, "five"))
            writes.test_an_abandoned_write_stages_nothing(new_refs(store, "six"))
            test_retention.test_a_commit_that_is_added_again_is_no_longer_expired(
                new_refs(store, "seven")
            )
            store.close()
            with psycopg.connect(app) as other, pytest.raises(psycopg.Error, match="denied"):
                other.execute("DELETE FROM sparklake.commits")
        finally:
            connection.execute("DROP SCHEMA sparklake CASCADE")
            connection.execute("DROP ROLE sparklake_owner, sparklake_app")


# --- errors and secrets


def whole_story(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        (f"postgresql://ann:{SECRET}@127.0.0.1:1/lake", "127.0.0.1:1/lake"),
        (f"host=127.0.0.1 port=1 user=ann password={SECRET} dbname=lake", "127.0.0.1:1/lake"),
        (f"postgresql://ann:{SECRET}@no-such-host.invalid/lake", "no-such-host.invalid/lake"),
        (f"host=/nowhere/at/all password={SECRET} dbname=lake", "/nowhere/at/all/lake"),
        (f"service=nowhere password={SECRET}", "service nowhere"),
    ],
)
def test_an_unreachable_server_is_reported_without_its_password(dsn: str, place: str) -> None:
    with pytest.raises(RefStoreUnavailableError, match=re.escape(place)) as caught:
        connect_ref_store(dsn)
    assert SECRET not in whole_story(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgres//ann:{SECRET}@host/lake",
        f"postgresql://ann:{SECRET}/x@host/lake",
        f"postgresql://ann:12/{SECRET}@host/lake",
        f"postgresql://ann:x@{SECRET}@host/lake",
        f"postgresql://ann:%zz{SECRET}@host/lake",
        f"host=h password='{SECRET}",
        f"host=h passwort={SECRET}",
        SECRET,
    ],
)
def test_an_invalid_dsn_is_not_repeated(dsn: str) -> None:
    with pytest.raises(InvalidInputError, match="not a Postgres connection string") as caught:
        connect_ref_store(dsn)
    assert SECRET not in whole_story(caught.value)


def test_a_wrong_password_is_not_repeated(empty_dsn: str) -> None:
    dsn = make_conninfo(empty_dsn, user="nobody-of-this-name", password=SECRET)
    with pytest.raises(RefStoreUnavailableError, match="nobody-of-this-name") as caught:
        connect_ref_store(dsn)
    assert SECRET not in whole_story(caught.value)


def test_a_store_does_not_show_its_password() -> None:
    connections = Connections(f"postgresql://ann:{SECRET}@host/lake")
    assert SECRET not in repr(connections.target)
    assert SECRET not in str(connections.target)
    assert SECRET not in connections.target.explain(Exception(f"server says {SECRET}"))


def test_a_dropped_database_is_reported(server_dsn: str) -> None:
    with fresh_database(server_dsn) as dsn:
        store = connect_ref_store(dsn)
    name = conninfo_to_dict(dsn)["dbname"]
    for _ in range(2):
        with pytest.raises(RefStoreUnavailableError, match=f"/{name} .*does not exist"):
            store.list_repositories()
    store.close()


# --- connections


def test_terminated_sessions_are_replaced(store: RefStore, admin: psycopg.Connection) -> None:
    refs = new_refs(store)
    end_sessions(admin)
    assert store.find_repository("lake") is not None
    end_sessions(admin)
    refs.staging.put("main", [a_record(b"k")], fence=0)
    end_sessions(admin)
    assert staged(refs) == dict([a_record(b"k")])


def test_a_session_terminated_within_a_transaction_is_reported(
    store: RefStore, shared_dsn: str, admin: psycopg.Connection
) -> None:
    refs = new_refs(store)
    refs.staging.put("main", [a_record(b"%05d" % number) for number in range(11_000)], fence=0)
    stream = refs.staging.rows(top(refs).id)
    next(stream)
    end_sessions(admin)
    assert len(list(stream)) == 10_999  # They are copied before the first one is read.
    connections = Connections(shared_dsn)

    def work() -> None:
        with connections.transaction() as connection:
            connection.execute("SELECT 1")
            end_sessions(admin)
            connection.execute("SELECT 1")

    with pytest.raises(RefStoreUnavailableError):
        work()
    assert connections.fetch("SELECT 2", {}) == [(2,)]
    connections.close()


def test_an_error_rolls_back_and_returns_the_connection(shared_dsn: str) -> None:
    connections = Connections(shared_dsn)
    used = []

    def work() -> None:
        with connections.transaction() as connection:
            used.append(connection)
            connection.execute("CREATE TABLE public.never ()")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert connections.fetch("SELECT to_regclass('public.never')", {}) == [(None,)]
    with connections.transaction() as first, connections.transaction() as second:
        assert [first] == used
        assert second is not first
    connections.close()


def test_a_deadlock_is_a_lost_race(shared_dsn: str, store: RefStore) -> None:
    new_refs(store)
    connections = Connections(shared_dsn)
    met = [Event(), Event()]

    def lock(first: int) -> SparklakeError | None:
        try:
            with connections.transaction() as connection:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (first,))
                met[first].set()
                assert met[1 - first].wait(10)
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (1 - first,))
        except SparklakeError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        errors = [error for error in pool.map(lock, range(2)) if error is not None]
    assert [type(error) for error in errors] == [RaceLostError]
    connections.close()


def test_a_closed_store_reports_that_it_is_closed(shared_dsn: str) -> None:
    store = connect_ref_store(shared_dsn)
    store.close()
    store.close()
    with pytest.raises(LakeClosedError, match="closed"):
        store.list_repositories()


def test_a_forked_child_has_its_own_connections(empty_dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, empty_dsn],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONDEVMODE": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_sessions_have_an_application_name(store: RefStore, admin: psycopg.Connection) -> None:
    store.create_repository(a_repository(), FIRST, "ann")
    names = admin.execute(
        "SELECT DISTINCT application_name FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    ).fetchall()
    assert names == [("sparklake",)]
