"""Embedded Postgres servers, and folders open to their account."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from sparklake.stores.embedded import embedded_dsn
from sparklake.testing.folders import memory_root

_STOP_SECONDS = 10


SYSTEM_FOLDER = "SPARKLAKE_SYSTEM_FOLDER"


@contextmanager
def public_folder() -> Iterator[Path]:
    """Yield a folder open to everyone, unlike pytest's; delete it at the end."""
    path = Path(tempfile.mkdtemp(prefix="sparklake-test-", dir=memory_root() or "/tmp"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        _await_servers(path)
        shutil.rmtree(path)


def _await_servers(folder: Path) -> None:
    """Wait until the stopping servers in a folder remove their pid files."""
    patience = time.monotonic() + _STOP_SECONDS
    while any("postmaster.pid" in files for _, _, files in os.walk(folder)):
        if time.monotonic() > patience:
            return
        time.sleep(0.05)


@contextmanager
def system_folder() -> Iterator[Path]:
    """Keep embedded Postgres files outside the system folders."""
    before = os.environ.get(SYSTEM_FOLDER)
    with public_folder() as folder:
        os.environ[SYSTEM_FOLDER] = str(folder / "system")
        try:
            yield folder
        finally:
            os.environ.pop(SYSTEM_FOLDER)
            if before is not None:
                os.environ[SYSTEM_FOLDER] = before


@contextmanager
def embedded_home() -> Iterator[Path]:
    """Keep an embedded Postgres running in a home of its own; yield the home."""
    with system_folder() as folder, home_dsn(folder / "home"):
        yield folder / "home"


@contextmanager
def home_dsn(home: Path) -> Iterator[str]:
    """Keep the embedded Postgres of a home running; yield its DSN."""
    server = embedded_dsn(home)
    try:
        yield server.dsn
    finally:
        server.release()


@contextmanager
def fresh_database(dsn: str) -> Iterator[str]:
    """Yield the DSN of a new, empty database on a server; drop it at the end."""
    name = f"test_{uuid4().hex}"
    _execute(dsn, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield make_conninfo(dsn, dbname=name)
    finally:
        _execute(dsn, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _execute(dsn: str, statement: sql.Composed) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)
