"""Postgres sessions with bounded and reported waits for locks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import TupleRow

from sparklake.stores.waits import Wait, Waits

if TYPE_CHECKING:
    from psycopg.abc import Params
    from typing_extensions import LiteralString, Self

_SAY_SECONDS = 5.0

# Without a handler, Python writes warnings to stderr.
_LOG = logging.getLogger("sparklake.postgres")

# Others may wait for the holder, too. No text of a statement is shown, because it may have values.
# Postgres hides the state of the sessions of other roles.
_HOLDERS = r"""
    WITH RECURSIVE holder (pid) AS (
        SELECT unnest(pg_blocking_pids(%s))
      UNION
        SELECT unnest(pg_blocking_pids(pid)) FROM holder
    )
    SELECT CASE pid WHEN 0 THEN 'a prepared transaction' ELSE format('session %%s (%%s)', pid,
        concat_ws(', ', 'user ' || usename, 'application ' || nullif(application_name, ''),
            state || ' for ' || floor(extract(epoch FROM clock_timestamp() - xact_start)) || ' s',
            'latest statement: ' || upper(substring(query FROM '^\s*([[:alpha:]]{1,12})\M')))
        ) END
    FROM holder LEFT JOIN pg_stat_activity USING (pid)
    WHERE cardinality(pg_blocking_pids(pid)) = 0 ORDER BY pid LIMIT 3
"""


@dataclass(eq=False, slots=True)
class _LockWait:
    """A session's statement, and the holders of its awaited lock."""

    conninfo: str
    pid: int
    holders: str = ""


class LockTimeout(psycopg.errors.LockNotAvailable):
    """The timeout of a wait for a lock; `holders` describes its holders."""

    def __init__(self, message: str, holders: str) -> None:
        super().__init__(message)
        self.holders = holders


class Session(psycopg.Connection[TupleRow]):
    """A connection with reports of long waits for locks."""

    conninfo = ""
    server_pid = 0
    """The backend process of the current transaction. Poolers change it between transactions."""

    def begin(self, statement: LiteralString, lock_seconds: float) -> None:
        # A timeout of 0 would mean none.
        bound = f"SET LOCAL lock_timeout = {max(round(lock_seconds * 1000), 1)}"
        cursor = self.execute(f"{statement}; {bound}; SELECT pg_backend_pid()".encode())
        while cursor.nextset():
            pass
        ((self.server_pid,),) = cursor.fetchall()

    def read(self, query: LiteralString, values: Mapping[str, object]) -> list[TupleRow]:
        """Run one read-only statement without a timeout, which would cost another round trip."""
        self.server_pid = self.info.backend_pid
        return self.execute(query, values).fetchall()


class WatchedCursor(psycopg.Cursor[TupleRow]):
    """A cursor with reports of long waits for locks."""

    def execute(self, query: Any, params: Params | None = None, **options: Any) -> Self:
        with _watched(self.connection):
            return super().execute(query, params, **options)

    def executemany(self, query: Any, params_seq: Iterable[Params], **options: Any) -> None:
        with _watched(self.connection):
            super().executemany(query, params_seq, **options)


@contextmanager
def _watched(session: psycopg.Connection[Any]) -> Iterator[None]:
    assert isinstance(session, Session)
    wait = _LockWait(session.conninfo, session.server_pid)
    _WAITS.begin(wait)
    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise LockTimeout(str(error), wait.holders) from error
    finally:
        _WAITS.end()


def _report(wait: Wait[_LockWait]) -> None:
    try:
        with psycopg.connect(wait.what.conninfo, autocommit=True) as looker:
            holders = looker.execute(_HOLDERS, (wait.what.pid,)).fetchall()
    except psycopg.Error as error:
        _LOG.warning("cannot see what Postgres waits for: %s", type(error).__name__)
        return
    if holders:
        wait.what.holders = " and ".join(holder for (holder,) in holders)
        words = "waiting for a lock in Postgres for %.0f s: held by %s"
        _LOG.warning(words, wait.seconds, wait.what.holders)


_WAITS = Waits(_SAY_SECONDS, _report)
