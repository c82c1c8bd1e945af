"""Turns: advisory locks of Postgres that last as long as a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg

from sparklake.errors import RefStoreUnavailableError
from sparklake.stores.postgres.connections import Connections
from sparklake.stores.postgres.sessions import Session

if TYPE_CHECKING:
    from typing_extensions import LiteralString

TURN: LiteralString = "hashtextextended(%(turn)s, 0)"
"""The name of a lock as a number."""


@contextmanager
def holding(connections: Connections) -> Iterator[Session]:
    """Yield a connection that keeps its locks until the end of the block."""
    with ExitStack() as stack:
        yield stack.enter_context(connections.transaction())
        # Work done meanwhile is valid, even if the server has become unreachable since.
        with suppress(RefStoreUnavailableError):
            stack.close()


def wait_for_turn(connection: Session, turn: str, seconds: float) -> bool:
    """Take a lock, in FIFO order, for the rest of the transaction; return whether it is held."""
    # A timeout of 0 would mean none.
    bound = f"{max(round(seconds * 1000), 1)}ms"
    connection.execute("SELECT set_config('lock_timeout', %s, true)", (bound,))
    try:
        connection.execute(f"SELECT pg_advisory_xact_lock({TURN})", {"turn": turn})
    except psycopg.errors.LockNotAvailable:
        return False
    return True
