"""The garbage collections of one repository, in Postgres.

Like a setting, the fence is written into the repository's row and into those of all its branches,
in the order of all locks, and open layers are sealed. So when it is raised, no change is under way,
and whoever comes to a branch with an older one is refused.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from sparklake.errors import CollectionOpenError, RefStoreUnavailableError
from sparklake.graveler.ports import Moment, RefsSnapshot
from sparklake.graveler.retention import expired_commits
from sparklake.stores.postgres.commits import all_commits, mark_expired
from sparklake.stores.postgres.settings import lock_settings, settings_of
from sparklake.stores.postgres.staging import layer_rows
from sparklake.stores.postgres.states import all_branches
from sparklake.stores.postgres.tags import all_tags

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from sparklake.stores.postgres.connections import Connections
    from sparklake.stores.postgres.layers import Scope

ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_NOW = """
    SELECT read_only, protection, metadata, retention,
           ARRAY(SELECT commit_id FROM sparklake.expired_commits WHERE repository_uid = %(uid)s),
           floor(extract(epoch FROM clock_timestamp()))::bigint
    FROM sparklake.repositories WHERE uid = %(uid)s
"""


class PostgresCollections:
    """Lets one garbage collection at a time see what must stay."""

    def __init__(self, connections: Connections, scope: Scope) -> None:
        self._connections = connections
        self._scope = scope
        self._uid = scope.uid

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps every other collection out, by a lock that goes with a transaction."""
        with ExitStack() as held:
            connection = held.enter_context(self._connections.transaction())
            row = connection.execute(
                "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))",
                (f"{self._uid} collection",),
            ).fetchone()
            if row is None or not row[0]:
                raise CollectionOpenError("a garbage collection is under way: wait for its end")
            yield
            # What was done stays done, even where the server has gone away meanwhile.
            with suppress(RefStoreUnavailableError):
                held.close()

    @contextmanager
    def look(self) -> Iterator[Moment]:
        """Returns the repository as it is now."""
        with self._connections.transaction(ONE_MOMENT) as connection:
            yield _moment(connection, self._uid)

    @contextmanager
    def begin(self) -> Iterator[Moment]:
        """Raises all fences, lets commits expire, and returns the repository as of that moment."""
        with ExitStack() as held:
            with self._connections.transaction() as connection:
                lock_settings(connection, self._scope)
                _raise_fences(connection, self._uid)
                # It sees all that was published, and nothing can be while the locks are held.
                reading = held.enter_context(self._connections.transaction(ONE_MOMENT))
                moment = _moment(reading, self._uid)
                mark_expired(connection, self._uid, sorted(moment.expiring))
            yield moment


def snapshot_of(connection: psycopg.Connection, uid: str) -> RefsSnapshot:
    """Returns all refs and all commits, as part of a transaction of one moment."""
    return RefsSnapshot(
        tuple(all_branches(connection, uid)),
        tuple(all_tags(connection, uid)),
        tuple(all_commits(connection, uid)),
    )


def _moment(connection: psycopg.Connection, uid: str) -> Moment:
    refs, rows = snapshot_of(connection, uid), partial(layer_rows, connection, uid)
    found = connection.execute(_NOW, {"uid": uid}).fetchone()
    if found is None:
        return Moment(refs, rows)
    *columns, expired, now = found
    unkept = expired_commits(refs, settings_of(*columns).retention, now)
    return Moment(refs, rows, frozenset(expired), unkept.difference(expired))


def _raise_fences(connection: psycopg.Connection, uid: str) -> None:
    """Raises the fences of a locked repository, after the writers that are under way."""
    connection.execute("UPDATE sparklake.repositories SET fence = fence + 1 WHERE uid = %s", (uid,))
    connection.execute(
        "SELECT 1 FROM sparklake.branches WHERE repository_uid = %s ORDER BY name FOR UPDATE",
        (uid,),
    )
    connection.execute(
        "UPDATE sparklake.branches b SET fence = r.fence FROM sparklake.repositories r"
        " WHERE r.uid = %(uid)s AND b.repository_uid = r.uid",
        {"uid": uid},
    )
    connection.execute(
        "UPDATE sparklake.layers SET sealed = true WHERE repository_uid = %s AND NOT sealed",
        (uid,),
    )
