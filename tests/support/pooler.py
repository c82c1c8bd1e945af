"""PgBouncer, a pooler of Postgres sessions, in transaction mode."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

EXPECTED = "SPARKLAKE_EXPECT_PGBOUNCER"
"""The setting of a machine on which PgBouncer must not be missing."""

_START_SECONDS = 20
_PORT = 6432


@contextmanager
def pooled(dsn: str, size: int = 4, **settings: object) -> Iterator[str]:
    """Yield the DSN of a PgBouncer with `size` server sessions on a local socket."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        assert EXPECTED not in os.environ, "PgBouncer is missing"
        pytest.skip("PgBouncer is missing: apt install pgbouncer")
    parts = conninfo_to_dict(dsn)
    # Only this account can reach the server's socket.
    owner = Path(str(parts["host"])).owner()
    with tempfile.TemporaryDirectory(prefix="sl-", dir="/tmp") as folder:
        shutil.chown(folder, owner)
        file = Path(folder) / "pgbouncer.ini"
        file.write_text(_configuration(parts, folder, size, settings))
        shutil.chown(file, owner)
        account = ["-u", owner] if os.geteuid() == 0 else []
        bouncer = subprocess.Popen([program, "-q", *account, str(file)])
        try:
            pooled_dsn = make_conninfo(dsn, host=folder, port=_PORT)
            _await(bouncer, pooled_dsn)
            yield pooled_dsn
        finally:
            bouncer.terminate()
            bouncer.wait(_START_SECONDS)


def _configuration(
    parts: dict[str, object], folder: str, size: int, settings: dict[str, object]
) -> str:
    options = {
        "listen_addr": "",
        "listen_port": _PORT,
        "unix_socket_dir": folder,
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": size,
        "max_client_conn": 1000,
        "logfile": f"{folder}/log",
        **settings,
    }
    lines = [f"{name} = {value}" for name, value in options.items()]
    database = "* = " + " ".join(f"{name}={parts[name]}" for name in ("host", "port", "user"))
    return "\n".join(["[databases]", database, "[pgbouncer]", *lines, ""])


def _await(bouncer: subprocess.Popen[bytes], dsn: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            assert bouncer.poll() is None, "PgBouncer ended at its start"
            assert time.monotonic() < deadline, "PgBouncer did not start in time"
            time.sleep(0.02)
        else:
            return
