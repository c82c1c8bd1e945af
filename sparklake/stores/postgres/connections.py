"""Pooled Postgres connections, and connection strings without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import tenacity
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping, TransactionStatus

from sparklake.errors import (
    InvalidInputError,
    LakeClosedError,
    LockHeldError,
    RaceLostError,
    RefStoreUnavailableError,
)
from sparklake.stores.postgres.sessions import (
    BEGIN,
    POOL_SECONDS,
    LockTimeout,
    PoolTimeout,
    Session,
    WatchedCursor,
)

if TYPE_CHECKING:
    from typing_extensions import LiteralString

CONNECT_SECONDS = 10

_START_SECONDS = 30.0
"""How long a connection waits, in seconds, for a server that starts or recovers."""

LOCK_SECONDS = 60.0
"""How long a statement waits for a lock of another session, in seconds."""

_LOCK_ATTEMPTS = 6
_WAIT_SECONDS = 0.02
_MAX_WAIT_SECONDS = 0.5
_STARTING = re.compile(r"starting up|not (?:yet )?accepting|shutting down|in recovery mode")
_SECRETS = {"password", "sslpassword", "oauth_client_secret"}
_PORTS = re.compile(r"[\d,]*")


@dataclass(frozen=True, slots=True)
class Target:
    """The database of a connection string. Its text and repr contain no secret."""

    name: str
    conninfo: str = field(repr=False)
    password: str = field(repr=False)

    def __str__(self) -> str:
        return self.name

    def connect(self) -> Session:
        """Return a new connection; wait a bounded time while the server starts up."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(self._is_starting),
            stop=tenacity.stop_after_delay(_START_SECONDS),
            wait=tenacity.wait_random_exponential(multiplier=_WAIT_SECONDS, max=_MAX_WAIT_SECONDS),
            reraise=True,
        )
        # Server-side prepared statements would fail behind a connection pooler.
        session = retrying(
            Session.connect,
            self.conninfo,
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=WatchedCursor,
        )
        session.conninfo = self.conninfo
        try:
            session.look_for_pooler()
        except BaseException:
            session.close()
            raise
        return session

    def _is_starting(self, error: BaseException) -> bool:
        timeout = psycopg.errors.ConnectionTimeout
        if not isinstance(error, psycopg.OperationalError) or isinstance(error, timeout):
            return False
        if _STARTING.search(str(error)):
            return True
        # The message is in the server's language. The reply to a ping is not.
        return PGconn.ping(self.conninfo.encode()) == Ping.REJECT

    def explain(self, error: Exception) -> str:
        """Return the driver's message of an error, with the password masked."""
        words = " ".join(str(error).split()) or type(error).__name__
        return words.replace(self.password, "***") if self.password else words


def public_dsn(dsn: str) -> str:
    parts = _parts(dsn)
    if not _SECRETS & parts.keys():
        return dsn
    return make_conninfo("", **{name: parts[name] for name in parts if name not in _SECRETS})


def parse_dsn(dsn: str) -> Target:
    """Parse a DSN. Passwords with unquoted '@' or '/' would leak into messages and are rejected."""
    parts = _parts(dsn)
    defaults = {"connect_timeout": str(CONNECT_SECONDS), "application_name": "sparklake"}
    return Target(
        name=_name(parts),
        conninfo=make_conninfo("", **(defaults | parts)),
        password=parts.get("password", ""),
    )


def _parts(dsn: str) -> dict[str, str]:
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.Error:
        raise _malformed() from None
    names = parts.get("host", "") + parts.get("dbname", "")
    if "@" in names or not _PORTS.fullmatch(parts.get("port", "")):
        raise _malformed()
    return parts


def _malformed() -> InvalidInputError:
    return InvalidInputError(
        "the DSN is not a Postgres connection string: write postgresql://user@host:5432/database "
        "or 'host=... dbname=...', with special characters in the user and password "
        "percent-encoded"
    )


def _name(parts: dict[str, str]) -> str:
    if "service" in parts and "host" not in parts:
        return f"service {parts['service']}"
    host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST", "local socket")
    port = parts.get("port") or os.environ.get("PGPORT", "")
    database = parts.get("dbname") or os.environ.get("PGDATABASE", "")
    return f"{host}{':' if port else ''}{port}/{database}"


def _is_pool_timeout(error: psycopg.Error) -> bool:
    return isinstance(error, PoolTimeout) or "query_wait_timeout" in str(error)


_Result = TypeVar("_Result")


class Connections:
    """A thread-safe pool. No statement that may have run is ever repeated."""

    def __init__(self, dsn: str, restart: Callable[[], str] | None = None) -> None:
        self.target: Target = parse_dsn(dsn)
        self._restart = restart
        self._idle: list[Session] = []
        self._lock = Lock()
        self._pid = os.getpid()
        self._closed = False

    def fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        with self._errors_told():
            connection, rows = self._first(lambda session: session.read(query, values))
            self._give_back(connection)
            return rows

    @contextmanager
    def transaction(
        self, begin: LiteralString = BEGIN, lock_seconds: float | None = None
    ) -> Iterator[Session]:
        """Yield a connection for one transaction; commit unless there is an error."""
        bound = LOCK_SECONDS if lock_seconds is None else lock_seconds
        with self._errors_told():
            connection, _ = self._first(lambda session: session.begin(begin, bound))
            try:
                yield connection
                connection.end("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise
            finally:
                self._give_back(connection)

    def retried(self, work: Callable[[Session], _Result]) -> _Result:
        """Run a transaction with several locks; roll back and retry while one is held elsewhere."""

        def attempt() -> _Result:
            with self.transaction(lock_seconds=LOCK_SECONDS / _LOCK_ATTEMPTS) as connection:
                return work(connection)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(LockHeldError),
            stop=tenacity.stop_after_attempt(_LOCK_ATTEMPTS),
            wait=tenacity.wait_random_exponential(multiplier=_WAIT_SECONDS, max=_MAX_WAIT_SECONDS),
            reraise=True,
        )
        return retrying(attempt)

    def close(self) -> None:
        """Close idle connections now, and connections in use when they are returned."""
        with self._lock:
            self._closed = True
            self._leave_to_parent()
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _first(self, step: Callable[[Session], _Result]) -> tuple[Session, _Result]:
        """Run a connection's first step; if an idle connection is dead, use a new one."""
        connection = self._take_idle()
        if connection is not None:
            try:
                return connection, step(connection)
            except psycopg.OperationalError as error:
                self._give_back(connection)
                if not connection.closed or _is_pool_timeout(error):
                    raise
            except BaseException:
                self._give_back(connection)
                raise
        connection = self._connect()
        try:
            return connection, step(connection)
        except BaseException:
            self._give_back(connection)
            raise

    def _connect(self) -> Session:
        try:
            return self.target.connect()
        except psycopg.OperationalError:
            if self._restart is None:
                raise
        self.target = parse_dsn(self._restart())
        return self.target.connect()

    def _take_idle(self) -> Session | None:
        with self._lock:
            if self._closed:
                raise LakeClosedError(
                    "the lake is closed: open it again with sparklake.connect(), and use it inside "
                    "its `with` block"
                )
            self._leave_to_parent()
            return self._idle.pop() if self._idle else None

    def _leave_to_parent(self) -> None:
        """Drop connections inherited by fork, without closing the parent's sessions."""
        if self._pid == os.getpid():
            return
        with Path(os.devnull).open("rb") as nowhere:
            for connection in self._idle:
                os.dup2(nowhere.fileno(), connection.fileno(), inheritable=False)
                connection.close()
        self._idle, self._pid = [], os.getpid()

    def _give_back(self, connection: Session) -> None:
        usable = connection.info.transaction_status == TransactionStatus.IDLE
        connection.note_answer()
        with self._lock:
            if usable and not self._closed and self._pid == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def _roll_back(self, connection: Session) -> None:
        try:
            connection.end("ROLLBACK")
        except psycopg.Error:
            connection.close()  # The server rolls back a lost connection.

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
            raise RaceLostError(
                f"another writer interfered, try again: {self.target.explain(error)}"
            ) from None
        except LockTimeout as error:
            raise LockHeldError(
                f"a lock in the ref store at {self.target} was not free within "
                f"{LOCK_SECONDS:.0f} s, so the transaction was rolled back. The lock is held by "
                f"{error.holders or 'another session'}: end that transaction, or wait for its "
                "end, and try again"
            ) from None
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"the ref store cannot store this text, which is not UTF-8: {error.object!r}"
            ) from None
        except psycopg.DataError as error:
            raise InvalidInputError(
                f"the ref store cannot store this value: {self.target.explain(error)}"
            ) from None
        except psycopg.Error as error:
            if _is_pool_timeout(error):
                raise RefStoreUnavailableError(
                    f"the pooler at {self.target} had no free connection within "
                    f"{POOL_SECONDS:.0f} s, or its own limit (PgBouncer: query_wait_timeout). "
                    "Try again with fewer processes, or with a larger pool (PgBouncer: "
                    "default_pool_size)"
                ) from None
            raise RefStoreUnavailableError(
                f"the ref store at {self.target} cannot be used: "
                f"{self.target.explain(error)}. Check the server, the DSN, and the "
                "permissions of the role"
            ) from None
