"""The append-only log of ref moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.graveler.ports import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from sparklake.graveler.ids import CommitId
    from sparklake.stores.postgres.connections import Connections


def log_operation(
    connection: psycopg.Connection,
    uid: str,
    who: str,
    verb: str,
    ref: str,
    from_commit: CommitId | None,
    to_commit: CommitId | None,
) -> None:
    """Adds a line to the log, as part of the transaction that moves the ref."""
    connection.execute(
        """
        INSERT INTO sparklake.operations
            (repository_uid, who, verb, ref, from_commit, to_commit)
        VALUES (%s, %s, %s, %s, %s, %s)
        """,
        (uid, who, verb, ref, from_commit, to_commit),
    )


class PostgresOperations:
    """Holds the log of one repository."""

    def __init__(self, connections: Connections, uid: str) -> None:
        self._connections = connections
        self._uid = uid

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Returns the latest operations, newest first; of one ref, or of all."""
        rows = self._connections.fetch(
            """
            SELECT sequence, floor(extract(epoch FROM date))::bigint, who, verb, ref,
                   from_commit, to_commit,
                   mod(floor(extract(epoch FROM date) * 1000000), 1000000)::int
            FROM sparklake.operations WHERE repository_uid = %(uid)s
                AND (%(ref)s::text IS NULL OR ref = %(ref)s)
            ORDER BY sequence DESC LIMIT %(limit)s
            """,
            {"uid": self._uid, "ref": ref, "limit": limit},
        )
        return [Operation(*row) for row in rows]
