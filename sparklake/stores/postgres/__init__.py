"""The ref store in Postgres."""

from __future__ import annotations

from collections.abc import Callable

from sparklake.graveler.ports import RefStore
from sparklake.stores.postgres.connections import Connections
from sparklake.stores.postgres.migrations import migrate
from sparklake.stores.postgres.ref_store import PostgresRefStore

__all__ = ["connect_ref_store", "existing_ref_store"]


def connect_ref_store(dsn: str, restart: Callable[[], str] | None = None) -> RefStore:
    """Open and migrate a ref store. `restart` starts an unreachable server, and returns its DSN."""
    connections = Connections(dsn, restart)
    try:
        migrate(connections)
    except BaseException:
        connections.close()
        raise
    return PostgresRefStore(connections)


def existing_ref_store(dsn: str) -> RefStore:
    """Return the ref store at a connection string, without migrating its schema."""
    return PostgresRefStore(Connections(dsn))
