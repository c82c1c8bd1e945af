"""Locks in rows with an expiry, which occupy no connection while they are held or awaited.

A lock held by a transaction would occupy its connection. Behind a pooler, holders that wait for a
second connection would wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING

from sparklake.errors import RefStoreUnavailableError
from sparklake.stores.postgres.connections import Connections

if TYPE_CHECKING:
    from typing_extensions import LiteralString

LEASE_SECONDS = 30.0
"""How long a lock is held after the last renewal, in seconds, by the clock of the server."""

_RENEWALS = 3
_POLL_SECONDS = 0.01
_MAX_POLL_SECONDS = 0.25
_POLL_SHARE = 0.05
"""The pause between two looks, as a share of the time waited."""

# A holder without a pooler is known to be dead when its session is gone.
_IS_ALIVE: LiteralString = """
    (expires > clock_timestamp()
        AND (session IS NULL OR session IN (SELECT pid FROM pg_stat_activity)))
"""

# Serializes the tickets of one name. It is held for this transaction only.
_SERIALIZE: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))"
_DROP_DEAD = f"""
    DELETE FROM sparklake.leases WHERE name = %(name)s AND NOT {_IS_ALIVE}
"""  # noqa: S608  (a condition, no values)
_DROP_ABANDONED: LiteralString = """
    DELETE FROM sparklake.leases WHERE ticket IN (
        SELECT ticket FROM sparklake.leases WHERE name <> %(name)s AND expires <= clock_timestamp()
        LIMIT 100 FOR UPDATE SKIP LOCKED
    )
"""
_ENTER: LiteralString = """
    INSERT INTO sparklake.leases (name, expires, session)
    SELECT %(name)s, clock_timestamp() + %(lifetime)s, %(session)s
    WHERE %(waits)s OR NOT EXISTS (SELECT FROM sparklake.leases WHERE name = %(name)s)
    RETURNING ticket, (SELECT count(*) FROM sparklake.leases WHERE name = %(name)s)
"""
_LOOK = f"""
    SELECT coalesce(bool_or(ticket = %(ticket)s), false),
           count(*) FILTER (WHERE ticket < %(ticket)s),
           count(*) FILTER (WHERE ticket < %(ticket)s AND {_IS_ALIVE})
    FROM sparklake.leases WHERE name = %(name)s
"""  # noqa: S608
_RENEW: LiteralString = """
    UPDATE sparklake.leases
    SET expires = clock_timestamp() + %(lifetime)s, session = %(session)s
    WHERE name = %(name)s AND ticket = %(ticket)s AND expires > clock_timestamp()
"""
_LEAVE: LiteralString = "DELETE FROM sparklake.leases WHERE name = %(name)s AND ticket = %(ticket)s"


@contextmanager
def leased(connections: Connections, name: str, seconds: float) -> Iterator[Lease | None]:
    """Hold a lock in FIFO order of requests; yield it, or None after `seconds` of waiting.

    Without any time to wait, a request that fails leaves nothing in the queue.
    """
    lease = Lease.request(connections, name, waits=seconds > 0)
    if lease is None:
        yield None
        return
    stop = Event()
    Thread(target=lease.keep, args=(stop,), name="sparklake-lease", daemon=True).start()
    try:
        yield lease if lease.is_first or lease.wait(seconds) else None
    finally:
        stop.set()
        # Concurrent work is valid, even if the server has become unreachable since.
        with suppress(RefStoreUnavailableError):
            lease.leave()


def is_leased(connections: Connections, name: str) -> bool:
    """Return whether a lock is held or awaited."""
    query = f"SELECT 1 FROM sparklake.leases WHERE name = %(name)s AND {_IS_ALIVE}"  # noqa: S608
    return bool(connections.fetch(query, {"name": name}))


@dataclass(frozen=True, slots=True)
class Lease:
    """A place in the queue for a lock."""

    connections: Connections
    name: str
    ticket: int
    is_first: bool

    @staticmethod
    def request(connections: Connections, name: str, *, waits: bool) -> Lease | None:
        """Queue for a lock; unless it `waits`, only if nobody has it or waits for it."""
        with connections.transaction() as connection:
            values = {
                "name": name,
                "waits": waits,
                "session": connection.direct_pid,
                "lifetime": timedelta(seconds=LEASE_SECONDS),
            }
            with connection.batch(commit=True):
                connection.execute(_SERIALIZE, values)
                connection.execute(_DROP_DEAD, values)
                connection.execute(_DROP_ABANDONED, values)
                entry = connection.execute(_ENTER, values)
            row = entry.fetchone()
        return None if row is None else Lease(connections, name, row[0], is_first=row[1] == 0)

    def wait(self, seconds: float) -> bool:
        """Wait for all earlier requests; return whether the lock is held."""
        start = time.monotonic()
        while (waited := time.monotonic() - start) < seconds:
            ((exists, earlier, alive),) = self.connections.fetch(_LOOK, self._values)
            if not (exists and earlier):
                return bool(exists)
            if alive:
                pause = min(_POLL_SECONDS * alive + _POLL_SHARE * waited, _MAX_POLL_SECONDS)
                time.sleep(min(pause, seconds - waited))
            else:
                # They cannot be renewed any more after this.
                self._change(_DROP_DEAD)
        return False

    def keep(self, stop: Event) -> None:
        """Renew the place until `stop` is set, or the place is lost."""
        while not stop.wait(LEASE_SECONDS / _RENEWALS):
            with suppress(RefStoreUnavailableError):
                if not self.renew():
                    return

    def renew(self) -> bool:
        """Renew the place; return False if it is lost."""
        return self._change(_RENEW)

    def leave(self) -> None:
        """Give up the place."""
        self._change(_LEAVE)

    @property
    def _values(self) -> dict[str, object]:
        return {"name": self.name, "ticket": self.ticket}

    def _change(self, statement: LiteralString) -> bool:
        with self.connections.transaction() as connection:
            values = {
                **self._values,
                "session": connection.direct_pid,
                "lifetime": timedelta(seconds=LEASE_SECONDS),
            }
            with connection.batch(commit=True):
                change = connection.execute(statement, values)
            return change.rowcount > 0
