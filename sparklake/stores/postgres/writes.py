"""The writes of one repository, in Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparklake.errors import AlreadyExistsError, RepositoryNotFoundError, WriteEndedError
from sparklake.graveler.ports import Write, WriteState

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from sparklake.stores.postgres.connections import Connections

_COLUMNS = "id, place, branch, who, floor(extract(epoch FROM started_at))::bigint, state"


class PostgresWrites:
    """Holds the writes of one repository."""

    def __init__(self, connections: Connections, uid: str) -> None:
        self._connections = connections
        self._uid = uid

    def begin(self, write_id: str, place: str, branch: str, who: str) -> Write:
        """Notes a write."""
        values = {"uid": self._uid, "id": write_id, "place": place, "branch": branch, "who": who}
        with self._connections.transaction() as connection:
            # Locked, so that a repository which is being deleted gets no more of them.
            found = connection.execute(
                "SELECT 1 FROM sparklake.repositories WHERE uid = %(uid)s FOR KEY SHARE", values
            ).fetchone()
            if found is None:
                raise RepositoryNotFoundError("the repository was deleted")
            row = connection.execute(
                f"""
                INSERT INTO sparklake.writes (repository_uid, id, place, branch, who)
                VALUES (%(uid)s, %(id)s, %(place)s, %(branch)s, %(who)s)
                ON CONFLICT DO NOTHING RETURNING {_COLUMNS}
                """,  # noqa: S608  (columns, no values)
                values,
            ).fetchone()
        if row is None:
            raise AlreadyExistsError(f"there is a write {write_id!r} already")
        return _write(row)

    def find(self, write_id: str) -> Write | None:
        """Returns a write, whatever came of it."""
        rows = self._connections.fetch(
            f"SELECT {_COLUMNS} FROM sparklake.writes"  # noqa: S608
            " WHERE repository_uid = %(uid)s AND id = %(id)s",
            {"uid": self._uid, "id": write_id},
        )
        return _write(rows[0]) if rows else None

    def abandon(self, write_ids: Sequence[str]) -> Sequence[Write]:
        """Lets those of some writes that are open never stage anything; returns them."""
        with self._connections.transaction() as connection:
            # In the order of ids: two callers cannot deadlock.
            rows = connection.execute(
                f"""
                WITH ending AS (
                    SELECT id FROM sparklake.writes
                    WHERE repository_uid = %(uid)s AND id = ANY(%(ids)s::text[]) AND state = 'open'
                    ORDER BY id FOR UPDATE
                )
                UPDATE sparklake.writes SET state = 'abandoned'
                WHERE repository_uid = %(uid)s AND id IN (SELECT id FROM ending)
                RETURNING {_COLUMNS}
                """,  # noqa: S608
                {"uid": self._uid, "ids": list(write_ids)},
            ).fetchall()
        return sorted(map(_write, rows), key=lambda each: (each.started_at, each.id))

    def list(self) -> Sequence[Write]:
        """Returns the writes that are open or abandoned, the oldest first."""
        rows = self._connections.fetch(
            f"SELECT {_COLUMNS} FROM sparklake.writes"  # noqa: S608
            " WHERE repository_uid = %(uid)s AND state <> 'done' ORDER BY started_at, id",
            {"uid": self._uid},
        )
        return [_write(row) for row in rows]


def end_write(connection: psycopg.Connection, uid: str, branch: str, write_id: str) -> None:
    """Ends an open write to a locked branch; raises WriteEndedError where it is not open."""
    ended = connection.execute(
        "UPDATE sparklake.writes SET state = 'done'"
        " WHERE repository_uid = %s AND id = %s AND branch = %s AND state = 'open'",
        (uid, write_id, branch),
    ).rowcount
    if not ended:
        raise WriteEndedError.of(write_id, branch)


def _write(row: tuple[Any, ...]) -> Write:
    write_id, place, branch, who, started_at, state = row
    return Write(write_id, place, branch, who, started_at, WriteState(state))
