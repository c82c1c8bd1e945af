"""The lakes of this process, which all of its file systems share."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from sparklake.config import Settings, load_settings
from sparklake.lake import Lake, connect, parse_engine

# A forked child opens lakes of its own. So it needs locks of its own, too: one that was held while
# the process forked would never come free.
_LOCKS: dict[int, Lock] = {}
_LAKES: dict[tuple[int, Settings], Lake] = {}

# What connection strings were before their secrets were left out.
_WHOLE: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """What a lake is opened with, as `sparklake.connect` takes it."""

    home: str | Path | None = None
    dsn: str | None = field(default=None, repr=False)
    engine: str | None = None

    def open(self) -> Lake:
        """Return the lake, opened once in a process and closed when that ends."""
        dsn = self.dsn and _WHOLE.get(self.dsn, self.dsn)
        settings, pid = load_settings(self.home, dsn, parse_engine(self.engine)), os.getpid()
        with _LOCKS.setdefault(pid, Lock()):
            if (pid, settings) not in _LAKES:
                lake = _LAKES[pid, settings] = connect(self.home, dsn, engine=self.engine)
                atexit.register(_close, pid, lake)
            return _LAKES[pid, settings]


def without_secrets(dsn: str) -> str:
    """Return a connection string without what nobody may read.

    In this process and its children it still opens what the whole one does. In others the secrets
    come as Postgres's own clients find them: PGPASSWORD, or a file of passwords.
    """
    # Not at the top: psycopg is imported only when a lake is opened.
    from sparklake.stores.postgres.connections import public_dsn

    public = public_dsn(dsn)
    if public != dsn:
        _WHOLE.setdefault(public, dsn)
    return public


def _close(pid: int, lake: Lake) -> None:
    if pid == os.getpid():
        lake.close()
