"""Turns: advisory locks of Postgres that last as long as a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from typing_extensions import LiteralString

TURN: LiteralString = "hashtextextended(%(turn)s, 0)"
"""The name of a lock as a number."""


def wait_for_turn(connection: psycopg.Connection, turn: str, seconds: float) -> bool:
    """Take a lock for the rest of the transaction; return whether it is held.

    Postgres serves waiters in FIFO order.
    """
    # A timeout of 0 would mean none.
    bound = f"{max(round(seconds * 1000), 1)}ms"
    connection.execute("SELECT set_config('lock_timeout', %s, true)", (bound,))
    try:
        connection.execute(f"SELECT pg_advisory_xact_lock({TURN})", {"turn": turn})
    except psycopg.errors.LockNotAvailable:
        return False
    return True
