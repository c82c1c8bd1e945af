"""Postgres sessions with bounded and reported waits for locks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from select import POLLIN, poll
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from sparklake.stores.waits import Wait, Waits

if TYPE_CHECKING:
    from psycopg.abc import Params
    from typing_extensions import LiteralString, Self

T = TypeVar("T")

BEGIN: LiteralString = "BEGIN"

Answer: TypeAlias = Callable[[], T]
"""Returns or checks the result of sent statements, after the end of their batch."""

POOL_SECONDS = 60.0
"""How long a session waits for a connection of a pooler, in seconds."""

_SAY_SECONDS = 5.0
_PROVEN_SECONDS = 1.0

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


class PoolTimeout(psycopg.OperationalError):
    """A pooler had no free connection for this session."""


class LockTimeout(psycopg.errors.LockNotAvailable):
    """The timeout of a wait for a lock; `holders` describes its holders."""

    def __init__(self, message: str, holders: str) -> None:
        super().__init__(message)
        self.holders = holders


class Session(psycopg.Connection[TupleRow]):
    """A connection with reports of long waits for locks, and few round trips.

    The statements that start a transaction travel with its first statement, if the connection just
    answered: nothing is committed by then, but a dead connection could not be replaced.
    """

    conninfo = ""
    server_pid = 0
    """The backend process of the current transaction. Poolers change it between transactions."""
    _is_direct = False
    _answered = 0.0
    _bound: int | None = None
    """The lock timeout of a transaction that starts with its first statement."""
    _deadline: float | None = None

    def look_for_pooler(self) -> None:
        """Compare the server's process with that of the connection, which a pooler makes up."""
        with self._until_deadline():
            ((self.server_pid,),) = self.execute("SELECT pg_backend_pid()").fetchall()
        self._is_direct = self.server_pid == self.info.backend_pid
        self.note_answer()

    @property
    def direct_pid(self) -> int | None:
        """The server's process of this connection, which lives as long, or None with a pooler."""
        return self.server_pid if self._is_direct else None

    def begin(self, statement: LiteralString, lock_seconds: float) -> None:
        # A timeout of 0 would mean none.
        bound = max(round(lock_seconds * 1000), 1)
        if statement == BEGIN and self._is_direct and self._has_just_answered():
            self._bound = bound
            return
        timeout = f"SET LOCAL lock_timeout = {bound}"
        with self._until_deadline():
            cursor = self.execute(f"{statement}; {timeout}; SELECT pg_backend_pid()".encode())
        while cursor.nextset():
            pass
        ((self.server_pid,),) = cursor.fetchall()
        self._is_direct = self.server_pid == self.info.backend_pid

    def end(self, statement: LiteralString) -> None:
        """Commit or roll back, unless the transaction is empty or over."""
        self._bound = None
        if self.info.transaction_status != TransactionStatus.IDLE:
            self.execute(statement)

    @contextmanager
    def batch(self, *, commit: bool = False) -> Iterator[None]:
        """Send the statements of the block in one round trip; they have results after it.

        With `commit`, the transaction ends here, so their own conditions must decide what they do.
        """
        failure: psycopg.Error | None = None
        with _watched(self):
            try:
                with self.pipeline():
                    try:
                        self._send_begin()
                        yield
                        if commit:
                            self.execute("COMMIT")
                    except psycopg.Error as error:
                        # Leave the pipeline first: it would log what follows an error.
                        failure = error
            except psycopg.errors.PipelineAborted:
                if failure is None:
                    raise
            if failure is not None:
                raise failure

    @property
    def needs_batch(self) -> bool:
        """Whether the next statement is the first one of a transaction."""
        return self._bound is not None

    def read(self, query: LiteralString, values: Mapping[str, object]) -> list[TupleRow]:
        """Run one read-only statement without a timeout, which would cost another round trip."""
        self.server_pid = self.info.backend_pid
        with nullcontext() if self._is_direct else self._until_deadline():
            return self.execute(query, values).fetchall()

    def note_answer(self) -> None:
        self._answered = time.monotonic()

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        if self._deadline is not None:
            gen = _until(gen, self._deadline)
        return super().wait(gen, *arguments, **options)

    @contextmanager
    def _until_deadline(self) -> Iterator[None]:
        self._deadline = time.monotonic() + POOL_SECONDS
        try:
            yield
        finally:
            self._deadline = None

    def _has_just_answered(self) -> bool:
        is_recent = time.monotonic() - self._answered < _PROVEN_SECONDS
        # A server that ends a session sends a message first.
        poller = poll()
        poller.register(self, POLLIN)
        return is_recent and not poller.poll(0)

    def _send_begin(self) -> None:
        bound, self._bound = self._bound, None
        if bound is not None:
            self.execute(BEGIN)
            self.execute("SELECT set_config('lock_timeout', %s, true)", (f"{bound}ms",))


def _until(gen: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
    """Limit the waits of a generator of psycopg; the end is a PoolTimeout."""
    try:
        events = next(gen)
        while True:
            ready = yield events
            if not ready and time.monotonic() > deadline:
                raise PoolTimeout("the pool has no free connection")
            events = gen.send(ready)
    except StopIteration as end:
        return cast("T", end.value)


class WatchedCursor(psycopg.Cursor[TupleRow]):
    """A cursor with reports of long waits for locks."""

    def execute(self, query: Any, params: Params | None = None, **options: Any) -> Self:
        with _sending(self.connection):
            return super().execute(query, params, **options)

    def executemany(self, query: Any, params_seq: Iterable[Params], **options: Any) -> None:
        with _sending(self.connection):
            super().executemany(query, params_seq, **options)


def _sending(connection: psycopg.Connection[Any]) -> AbstractContextManager[None]:
    assert isinstance(connection, Session)
    if connection.pgconn.pipeline_status:
        return nullcontext()
    return connection.batch() if connection.needs_batch else _watched(connection)


@contextmanager
def _watched(session: Session) -> Iterator[None]:
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
        with Session.connect(wait.what.conninfo, autocommit=True) as looker:
            looker.look_for_pooler()
            holders = looker.execute(_HOLDERS, (wait.what.pid,)).fetchall()
    except psycopg.Error as error:
        _LOG.warning("cannot see what Postgres waits for: %s", type(error).__name__)
        return
    if holders:
        wait.what.holders = " and ".join(holder for (holder,) in holders)
        words = "waiting for a lock in Postgres for %.0f s: held by %s"
        _LOG.warning(words, wait.seconds, wait.what.holders)


_WAITS = Waits(_SAY_SECONDS, _report)
