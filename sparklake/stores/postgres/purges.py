"""The purges of one repository, in Postgres."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from sparklake.graveler.guards import read_only_error
from sparklake.graveler.ports.registers import Purge, PurgeCounts, PurgeState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparklake.stores.postgres.connections import Connections
    from sparklake.stores.postgres.layers import Scope

_SELECT = """
    SELECT id, who, date, message, patterns, state, counts, even_shared, also_external
    FROM sparklake.purges WHERE repository_uid = %(uid)s
"""


class PostgresPurges:
    """Holds the purges of one repository."""

    def __init__(self, connections: Connections, scope: Scope) -> None:
        self._connections = connections
        self._uid = scope.uid
        self._force = scope.force

    def add(self, purge: Purge) -> None:
        """Keeps a purge; raises ReadOnlyError."""
        with self._connections.transaction() as connection:
            row = connection.execute(
                "SELECT read_only FROM sparklake.repositories WHERE uid = %s FOR SHARE",
                (self._uid,),
            ).fetchone()
            if row is None:
                return
            if row[0] and not self._force:
                raise read_only_error()
            connection.execute(
                """
                INSERT INTO sparklake.purges
                    (repository_uid, id, who, date, message, patterns, state, counts,
                     even_shared, also_external)
                VALUES (%(uid)s, %(id)s, %(who)s, %(date)s, %(message)s, %(patterns)s, %(state)s,
                        %(counts)s, %(even_shared)s, %(also_external)s)
                """,
                {
                    **asdict(purge),
                    "uid": self._uid,
                    "patterns": Jsonb(list(purge.patterns)),
                    "state": purge.state.value,
                    "counts": Jsonb(asdict(purge.counts)),
                },
            )

    def find(self, purge_id: str) -> Purge | None:
        """Returns a purge."""
        rows = self._connections.fetch(
            _SELECT + " AND id = %(id)s", {"uid": self._uid, "id": purge_id}
        )
        return _purge(*rows[0]) if rows else None

    def list(self) -> Sequence[Purge]:
        """Returns all purges, newest first."""
        rows = self._connections.fetch(_SELECT + " ORDER BY sequence DESC", {"uid": self._uid})
        return [_purge(*row) for row in rows]

    def finish(self, purge_id: str) -> None:
        """Marks a purge as done."""
        with self._connections.transaction() as connection:
            connection.execute(
                "UPDATE sparklake.purges SET state = %s WHERE repository_uid = %s AND id = %s",
                (PurgeState.DONE.value, self._uid, purge_id),
            )


def _purge(*row: Any) -> Purge:
    purge_id, who, date, message, patterns, state, counts, *switches = row
    return Purge(
        *(purge_id, who, date, message, tuple(patterns), PurgeState(state)),
        *(PurgeCounts(**counts), *switches),
    )
