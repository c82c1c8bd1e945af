"""The lakes of this process, shared by all its file systems."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from sparklake.config import Settings, load_settings
from sparklake.lake import Lake, connect, parse_engine

# A forked child opens its own lakes. It also needs its own locks, because a lock held during the
# fork would stay locked.
_LOCKS: dict[int, Lock] = {}
_LAKES: dict[tuple[int, Settings], Lake] = {}

# The original connection strings of those without secrets.
_WHOLE: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """The options of a lake, as in `sparklake.connect`."""

    home: str | Path | None = None
    dsn: str | None = field(default=None, repr=False)
    engine: str | None = None

    def open(self) -> Lake:
        """Return the lake, opened once per process and closed at exit."""
        dsn = self.dsn and _WHOLE.get(self.dsn, self.dsn)
        settings, pid = load_settings(self.home, dsn, parse_engine(self.engine)), os.getpid()
        with _LOCKS.setdefault(pid, Lock()):
            if (pid, settings) not in _LAKES:
                lake = _LAKES[pid, settings] = connect(self.home, dsn, engine=self.engine)
                atexit.register(_close, pid, lake)
            return _LAKES[pid, settings]


def without_secrets(dsn: str) -> str:
    """Return a connection string without secrets.

    In this process and its children it still opens the same lake. Other processes read the secrets
    as Postgres clients do: from PGPASSWORD or a password file.
    """
    # Lazy import: psycopg is needed only when a lake is opened.
    from sparklake.stores.postgres.connections import public_dsn

    public = public_dsn(dsn)
    if public != dsn:
        _WHOLE.setdefault(public, dsn)
    return public


def _close(pid: int, lake: Lake) -> None:
    if pid == os.getpid():
        lake.close()
