"""The ref store in Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.stores.postgres.connections import Connections
from sparklake.stores.postgres.migrations import migrate
from sparklake.stores.postgres.store import PostgresRefStore

if TYPE_CHECKING:
    from sparklake.graveler.ports import RefStore

__all__ = ["connect_ref_store"]


def connect_ref_store(dsn: str) -> RefStore:
    """Returns the ref store behind a connection string, its schema brought up to date.

    Raises InvalidInputError for what is no connection string, RefStoreUnavailableError for a
    database that cannot be used.
    """
    connections = Connections(dsn)
    try:
        migrate(connections)
    except BaseException:
        connections.close()
        raise
    return PostgresRefStore(connections)
