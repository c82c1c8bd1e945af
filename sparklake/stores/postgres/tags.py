"""The tags of one repository, in Postgres."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from sparklake.errors import AlreadyExistsError, RefNotFoundError
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import RefVerb, TagInfo
from sparklake.graveler.ports.once import OnceRecord
from sparklake.stores.postgres.branch_rows import TREE_SWEEPS, RepositoryPart
from sparklake.stores.postgres.commits import IS_KEPT, check_not_expired, claim_name, log_and_commit
from sparklake.stores.postgres.once import add_once_record
from sparklake.stores.postgres.sessions import Session
from sparklake.stores.postgres.settings import hold_settings

_ALL = """
    SELECT name, commit_id FROM sparklake.tags WHERE repository_uid = %(uid)s ORDER BY name
"""


class PostgresTags(RepositoryPart):
    def create(
        self, name: str, commit_id: CommitId, who: str, *, once: OnceRecord | None = None
    ) -> TagInfo:
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, once)
            with connection.batch():
                settings = hold_settings(connection, self._scope)
                check_claim = claim_name(connection, self._uid, name, "branch")
            settings()
            check_claim()
            try:
                count = connection.execute(
                    "INSERT INTO sparklake.tags (repository_uid, name, commit_id)"
                    f" SELECT %(uid)s, %(name)s, %(commit)s WHERE {IS_KEPT} ON CONFLICT DO NOTHING",
                    {"uid": self._uid, "name": name, "commit": commit_id},
                ).rowcount
            except psycopg.errors.ForeignKeyViolation:
                raise RefNotFoundError(f"there is no commit {commit_id!r}") from None
            if not count:
                check_not_expired(connection, self._uid, commit_id)
                raise AlreadyExistsError(f"the tag {name!r} already exists; --exist-ok accepts it")
            verb = RefVerb.CREATE_TAG.value
            log_and_commit(connection, self._uid, who, verb, name, new=commit_id)
        return TagInfo(name, commit_id)

    def find(self, name: str) -> TagInfo | None:
        rows = self._fetch(
            f"SELECT name, commit_id, {TREE_SWEEPS} FROM sparklake.tags"  # noqa: S608
            " WHERE repository_uid = %(uid)s AND name = %(name)s",
            name=name,
        )
        if not rows:
            return None
        *values, sweeps = rows[0]
        self._scope.sweeps.see(sweeps)
        return TagInfo(*values)

    def list(self) -> Sequence[TagInfo]:
        rows = self._fetch(_ALL)
        return [TagInfo(*row) for row in rows]

    def delete(self, name: str, who: str) -> None:
        with self._connections.transaction() as connection:
            hold_settings(connection, self._scope)()
            match = connection.execute(
                "DELETE FROM sparklake.tags WHERE repository_uid = %s AND name = %s"
                " RETURNING commit_id",
                (self._uid, name),
            ).fetchone()
            if match is None:
                raise RefNotFoundError(f"there is no tag {name!r}")
            verb = RefVerb.DELETE_TAG.value
            log_and_commit(connection, self._uid, who, verb, name, old=match[0])


def all_tags(connection: Session, uid: str) -> Sequence[TagInfo]:
    """Return all tags in the byte order of their names, within a transaction."""
    return [TagInfo(*row) for row in connection.execute(_ALL, {"uid": uid})]
