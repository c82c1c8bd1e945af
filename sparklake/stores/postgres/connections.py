"""Connections to one database: leased, given back, replaced when the server has gone away."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from sparklake.errors import InvalidInputError, RaceLostError, RefStoreUnavailableError
from sparklake.stores.postgres.targets import Target, parse_dsn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import LiteralString

_Result = TypeVar("_Result")


class Connections:
    """Lends each statement, transaction or stream a connection of its own.

    Safe for threads: there are as many connections as there are uses at one time. A connection
    that turns out dead before it has done anything is replaced, once. `restart` starts a server
    that cannot be reached again, and returns its DSN; nothing is repeated that may have been done.
    """

    def __init__(self, dsn: str, restart: Callable[[], str] | None = None) -> None:
        self.target: Target = parse_dsn(dsn)
        self._restart = restart
        self._idle: list[psycopg.Connection] = []
        self._lock = Lock()
        self._pid = os.getpid()
        self._closed = False

    def fetch(self, query: LiteralString, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Runs one statement that only reads, and returns its rows."""

        def run(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(query, values).fetchall()

        with self._errors_told():
            connection, rows = self._first(run)
            self._give_back(connection)
            return rows

    @contextmanager
    def transaction(self, begin: LiteralString = "BEGIN") -> Iterator[psycopg.Connection]:
        """Lends a connection for one transaction, committed at the end unless there is an error."""
        with self._errors_told():
            connection, _ = self._first(lambda fresh: fresh.execute(begin))
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise
            finally:
                self._give_back(connection)

    def close(self) -> None:
        """Closes the idle connections, and later those that are lent out."""
        with self._lock:
            self._closed = True
            self._leave_to_parent()
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _first(
        self, step: Callable[[psycopg.Connection], _Result]
    ) -> tuple[psycopg.Connection, _Result]:
        """Takes a connection's first step; when an idle one fails for being dead, on a new one."""
        connection = self._take_idle()
        if connection is not None:
            try:
                return connection, step(connection)
            except psycopg.OperationalError:
                self._give_back(connection)
                if not connection.closed:
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

    def _connect(self) -> psycopg.Connection:
        try:
            return self.target.connect()
        except psycopg.OperationalError:
            if self._restart is None:
                raise
        self.target = parse_dsn(self._restart())
        return self.target.connect()

    def _take_idle(self) -> psycopg.Connection | None:
        with self._lock:
            if self._closed:
                raise RefStoreUnavailableError(f"the ref store at {self.target} has been closed")
            self._leave_to_parent()
            return self._idle.pop() if self._idle else None

    def _leave_to_parent(self) -> None:
        """Drops the connections that a forked child has from its parent, whose sessions go on.

        They are cut off from the server first: closing a connection takes leave of it.
        """
        if self._pid == os.getpid():
            return
        with Path(os.devnull).open("rb") as nowhere:
            for connection in self._idle:
                os.dup2(nowhere.fileno(), connection.fileno(), inheritable=False)
                connection.close()
        self._idle, self._pid = [], os.getpid()

    def _give_back(self, connection: psycopg.Connection) -> None:
        usable = connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if usable and not self._closed and self._pid == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def _roll_back(self, connection: psycopg.Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()  # The server rolls back what it no longer hears of.

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        """Turns the driver's errors into sparklake's, without the connection string."""
        try:
            yield
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
            raise RaceLostError(
                f"another writer got in the way, try again: {self.target.explain(error)}"
            ) from None
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"the ref store cannot hold this, which is not UTF-8: {error.object!r}"
            ) from None
        except psycopg.DataError as error:
            raise InvalidInputError(
                f"the ref store cannot hold this: {self.target.explain(error)}"
            ) from None
        except psycopg.Error as error:
            raise RefStoreUnavailableError(
                f"the ref store at {self.target} cannot be used: {self.target.explain(error)}; "
                "check that the server runs, the DSN and the rights of its role"
            ) from None
