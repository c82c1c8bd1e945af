"""Repository settings, and guards in its branch rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from psycopg.types.json import Jsonb

from sparklake.errors import RepositoryNotFoundError
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings, read_only_error
from sparklake.graveler.retention import BranchRetention, Retention
from sparklake.stores.postgres import branch_rows
from sparklake.stores.postgres.sessions import Answer, Session

_SELECT = """
    SELECT read_only, protection, metadata, retention
    FROM sparklake.repositories WHERE uid = %(uid)s
"""


class PostgresSettings(branch_rows.RepositoryPart):
    def get(self) -> RepositorySettings:
        return _found(self._fetch(_SELECT))

    def change(
        self, edit: Callable[[RepositorySettings], RepositorySettings]
    ) -> RepositorySettings:

        def change(connection: Session) -> RepositorySettings:
            query = _SELECT + " FOR NO KEY UPDATE"
            rows = connection.execute(query, {"uid": self._uid}).fetchall()
            settings = edit(_found(rows))
            set_settings(connection, self._uid, settings)
            _guard_branches(connection, self._uid, settings)
            return settings

        return self._connections.retried(change)


def set_settings(connection: Session, uid: str, settings: RepositorySettings) -> None:
    """Replace locked settings. The guards of branches are those of the previous ones."""
    connection.execute(
        "UPDATE sparklake.repositories SET read_only = %s, protection = %s, metadata = %s,"
        " retention = %s WHERE uid = %s",
        (*columns_of(settings), uid),
    )


def lock_settings(connection: Session, scope: branch_rows.Scope) -> RepositorySettings:
    query = _SELECT + " FOR NO KEY UPDATE"
    settings = _found(connection.execute(query, {"uid": scope.uid}).fetchall())
    if settings.read_only and not scope.force:
        raise read_only_error()
    return settings


def hold_settings(connection: Session, scope: branch_rows.Scope) -> Answer[RepositorySettings]:
    """Lock the settings until the transaction ends; answer them, or the defaults if none exist."""
    cursor = connection.execute(_SELECT + " FOR SHARE", {"uid": scope.uid})

    def settings() -> RepositorySettings:
        rows = cursor.fetchall()
        current = settings_of(*rows[0]) if rows else RepositorySettings()
        if current.read_only and not scope.force:
            raise read_only_error()
        return current

    return settings


def settings_of(
    read_only: bool,
    protection: Mapping[str, Sequence[str]],
    metadata: Mapping[str, str],
    retention: Mapping[str, Any] | None,
) -> RepositorySettings:
    rules = (
        ProtectionRule(pattern, frozenset(map(Action, actions)))
        for pattern, actions in sorted(protection.items())
    )
    labels = dict(sorted(metadata.items()))
    return RepositorySettings(read_only, tuple(rules), labels, _retention(retention))


def columns_of(settings: RepositorySettings) -> tuple[bool, Jsonb, Jsonb, Jsonb | None]:
    rules = {each.pattern: sorted(each.actions) for each in settings.protection}
    retention = None if settings.retention is None else Jsonb(asdict(settings.retention))
    return settings.read_only, Jsonb(rules), Jsonb(dict(settings.metadata)), retention


def _retention(document: Mapping[str, Any] | None) -> Retention | None:
    if document is None:
        return None
    rules = tuple(BranchRetention(**each) for each in document["branches"])
    return Retention(document["default_days"], rules, document.get("tree_days"))


def _found(rows: Sequence[tuple[Any, ...]]) -> RepositorySettings:
    if not rows:
        raise RepositoryNotFoundError("the repository no longer exists")
    return settings_of(*rows[0])


def _guard_branches(connection: Session, uid: str, settings: RepositorySettings) -> None:
    """Update all guards. Sealing layers makes later writers read the branch."""
    for name, read_only, protected in branch_rows.lock_branches(connection, uid):
        guard = settings.guard(name)
        if guard == branch_rows.guard_of(read_only, protected):
            continue
        connection.execute(
            "UPDATE sparklake.branches SET read_only = %s, protected = %s"
            " WHERE repository_uid = %s AND name = %s",
            (guard.read_only, sorted(guard.protected), uid, name),
        )
        branch_rows.seal_layers(connection, uid, name)
