"""Faults before one step of a child, in effect until it ends."""

from __future__ import annotations

import builtins
import errno
import gc
import io
import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from campaigns.faults.forks import Fault, Order
from sparklake.stores.postgres.connections import parse_dsn

TABLES = ("branches", "staged_rows", "layers", "commits", "tags", "operations", "settings")

# Locks of the tables, until the process ends.
_held: list[psycopg.Connection] = []


# --- Postgres -------------------------------------------------------------------------------------


def end_sessions(order: Order) -> None:
    """End all sessions, as an administrator or a failover does."""
    with _connected(order) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def refuse_writes(order: Order) -> None:
    """Make the database read-only, as a standby is, and end all sessions."""
    with _connected(order) as connection:
        connection.execute(_of_database(connection, "SET default_transaction_read_only = on"))
    end_sessions(order)


def kill_server(order: Order) -> None:
    """Kill the server's first process, and with it all others."""
    with _connected(order) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    pid = int((Path(row[0]) / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)


def lock_tables(order: Order) -> None:
    """Lock all tables not locked by this process."""
    connection = psycopg.connect(order["dsn"])
    for table in TABLES:
        statement = sql.SQL("LOCK TABLE sparklake.{} IN ACCESS EXCLUSIVE MODE NOWAIT")
        with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
            connection.execute(statement.format(sql.Identifier(table)))
    _held.append(connection)


def fill_server_disk(order: Order) -> None:
    """Let the sessions of this process write no file: the server panics, and recovers."""
    for each in gc.get_objects():
        if isinstance(each, psycopg.Connection) and not each.closed:
            _limit_files_of(each.info.backend_pid)


def _limit_files_of(pid: int) -> None:
    """Let a process write no file. Its account may do that, and root may become its account."""
    owner = Path(f"/proc/{pid}").stat()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(owner.st_gid, owner.st_gid, owner.st_gid)
                os.setresuid(owner.st_uid, owner.st_uid, owner.st_uid)
            hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def allow_writes(dsn: str) -> None:
    """Undo `refuse_writes`."""
    # It waits while the server recovers.
    with parse_dsn(dsn).connect() as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(_of_database(connection, "RESET default_transaction_read_only"))


def _connected(order: Order) -> psycopg.Connection:
    return psycopg.connect(order["dsn"], autocommit=True)


def _of_database(connection: psycopg.Connection, change: str) -> sql.Composed:
    name = sql.Identifier(connection.info.dbname)
    return sql.SQL("ALTER DATABASE {} ").format(name) + sql.SQL(change)


# --- disks ----------------------------------------------------------------------------------------


def fill_disk(order: Order) -> None:
    """Refuse new files, links, folders and syncs below some folders, as a full disk does."""
    full = tuple(order["full"])

    def refusing(call: Callable[..., Any], writes: Callable[..., bool]) -> Callable[..., Any]:
        def calling(*arguments: Any, **options: Any) -> Any:
            # The last path is the one that is written.
            paths = [
                os.fsdecode(each) for each in arguments if isinstance(each, (str, os.PathLike))
            ]
            place = next((each for each in reversed(paths) if each.startswith(full)), None)
            if place is not None and writes(*arguments, **options):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
            return call(*arguments, **options)

        return calling

    refused: tuple[tuple[Any, str, Callable[..., bool]], ...] = (
        (os, "open", _creates),
        (io, "open", _opens_to_write),
        (builtins, "open", _opens_to_write),
        *((os, name, _always) for name in ("link", "mkdir", "replace", "rename")),
    )
    for owner, name, writes in refused:
        setattr(owner, name, refusing(getattr(owner, name), writes))


def _always(*_: Any, **__: Any) -> bool:
    return True


def _creates(path: Any, flags: int, *_: Any, **__: Any) -> bool:
    return bool(flags & os.O_CREAT)


def _opens_to_write(path: Any, mode: str = "r", *_: Any, **__: Any) -> bool:
    return any(each in mode for each in "wax+")


def limit_files(order: Order) -> None:
    """Let this process write only the first bytes of each file: the kernel refuses the others."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (order["bytes"], hard))


# --- clocks ---------------------------------------------------------------------------------------


def turn_clock_back(order: Order) -> None:
    """Let each reading of the clock be some random time ago."""
    chance, seconds, read = Random(order["seed"]), order["seconds"], time.time_ns

    def ago() -> int:
        return read() - chance.randrange(seconds * 10**9)

    time.time_ns = ago
    time.time = lambda: ago() / 10**9


SERVER_CLOCK = "campaign_clock"
"""A schema whose clock_timestamp() replaces Postgres's in sessions that search it first."""

_SERVER_CLOCK = sql.SQL(
    "CREATE OR REPLACE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz VOLATILE"
    " LANGUAGE sql AS $$"
    " SELECT pg_catalog.clock_timestamp() - pg_catalog.random() * {seconds} * interval '1 second'"
    " $$"
)


def turn_server_clock_back(order: Order) -> None:
    """Let each reading of the ref store's clock be some random time ago."""
    with _connected(order) as connection:
        set_server_clock(connection, order["seconds"])


def set_server_clock(connection: psycopg.Connection, seconds: int) -> None:
    """Let the ref store's clock read times of up to so many seconds ago."""
    schema = sql.Identifier(SERVER_CLOCK)
    connection.execute(_SERVER_CLOCK.format(schema=schema, seconds=sql.Literal(seconds)))


def install_server_clock(dsn: str) -> None:
    """Take the times of sparklake's tables from the fault's own clock."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        schema = sql.Identifier(SERVER_CLOCK)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        set_server_clock(connection, 0)
        for table, column in connection.execute(_WITH_CLOCKS).fetchall():
            change = sql.SQL(
                "ALTER TABLE sparklake.{} ALTER {} SET DEFAULT {}.clock_timestamp()"
            ).format(sql.Identifier(table), sql.Identifier(column), schema)
            connection.execute(change)


_WITH_CLOCKS = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = 'sparklake' AND data_type = 'timestamp with time zone'"
    " AND column_default LIKE '%clock_timestamp()%'"
)


FAULTS: dict[str, Fault] = {
    each.__name__: each
    for each in (
        *(end_sessions, refuse_writes, kill_server, lock_tables, fill_server_disk),
        *(fill_disk, limit_files, turn_clock_back, turn_server_clock_back),
    )
}
