"""The tags of one repository, in Postgres."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from sparklake.errors import AlreadyExistsError, RefNotFoundError
from sparklake.graveler.ports import RefVerb, TagInfo
from sparklake.graveler.ports.once import OnceRecord
from sparklake.stores.postgres.branch_rows import TREE_SWEEPS, RepositoryPart
from sparklake.stores.postgres.commits import IS_KEPT, check_not_expired, claim_name, log_and_commit
from sparklake.stores.postgres.once import add_once_record
from sparklake.stores.postgres.sessions import Session
from sparklake.stores.postgres.settings import hold_settings

_COLUMNS = "name, commit_id, who, creation_date, message, metadata"
_ALL = f"""
    SELECT {_COLUMNS} FROM sparklake.tags WHERE repository_uid = %(uid)s ORDER BY name
"""  # noqa: S608  (an expression, no values)
_INSERT = f"""
    INSERT INTO sparklake.tags (repository_uid, {_COLUMNS})
    SELECT %(uid)s, %(name)s, %(commit)s, %(who)s, %(date)s, %(message)s, %(metadata)s
"""


class PostgresTags(RepositoryPart):
    def create(self, tag: TagInfo, who: str, *, once: OnceRecord | None = None) -> None:
        name, commit_id = tag.name, tag.commit_id
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, once)
            with connection.batch():
                settings = hold_settings(connection, self._scope)
                check_claim = claim_name(connection, self._uid, name, "branch")
            settings()
            check_claim()
            try:
                count = connection.execute(
                    f"{_INSERT} WHERE {IS_KEPT} ON CONFLICT DO NOTHING", _values(self._uid, tag)
                ).rowcount
            except psycopg.errors.ForeignKeyViolation:
                raise RefNotFoundError(f"there is no commit {commit_id!r}") from None
            if not count:
                check_not_expired(connection, self._uid, commit_id)
                raise AlreadyExistsError(f"the tag {name!r} already exists; --exist-ok accepts it")
            verb = RefVerb.CREATE_TAG.value
            log_and_commit(connection, self._uid, who, verb, name, new=commit_id)

    def find(self, name: str) -> TagInfo | None:
        rows = self._fetch(
            f"SELECT {_COLUMNS}, {TREE_SWEEPS} FROM sparklake.tags"  # noqa: S608
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


def _values(uid: str, tag: TagInfo) -> dict[str, Any]:
    return {
        "uid": uid,
        "name": tag.name,
        "commit": tag.commit_id,
        "who": tag.who,
        "date": tag.creation_date,
        "message": tag.message,
        "metadata": Jsonb(dict(tag.metadata)),
    }


def insert_tags(connection: Session, uid: str, tags: Iterable[TagInfo]) -> None:
    connection.cursor().executemany(_INSERT, [_values(uid, each) for each in tags])


def all_tags(connection: Session, uid: str) -> Sequence[TagInfo]:
    """Return all tags in the byte order of their names, within a transaction."""
    return [TagInfo(*row) for row in connection.execute(_ALL, {"uid": uid})]
