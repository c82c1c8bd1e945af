"""The repositories of a lake, in Postgres."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from sparklake.errors import AlreadyExistsError, RepositoryNotFoundError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import read_only_error
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchState, RefsSnapshot, RefVerb, RepositoryInfo
from sparklake.stores.objects.namespaces import refuse_overlapping
from sparklake.stores.postgres import commits, registers
from sparklake.stores.postgres.branch_rows import Scope, drop_repository_layers
from sparklake.stores.postgres.branches import PostgresBranches
from sparklake.stores.postgres.connections import Connections
from sparklake.stores.postgres.once import PostgresOnceKeys
from sparklake.stores.postgres.sessions import Session
from sparklake.stores.postgres.settings import PostgresSettings, columns_of, settings_of
from sparklake.stores.postgres.staging import PostgresStaging, PostgresWrites
from sparklake.stores.postgres.tags import PostgresTags, insert_tags

_RANGE_RECORDS = "range_records"

_SELECT = """
    SELECT r.name, r.uid, r.storage_namespace, r.default_branch, s.value, r.creation_date,
           r.read_only, r.protection, r.metadata, r.retention
    FROM sparklake.repositories r
    JOIN sparklake.settings s ON s.repository_uid = r.uid AND s.name = 'range_records'
"""


class PostgresRefStore:
    """The repositories of a lake in one database. Thread-safe and fork-safe."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def id(self) -> str:
        rows = self._connections.fetch("SELECT id::text FROM sparklake.lake", {})
        lake_id: str = rows[0][0]
        return lake_id

    def create_repository(self, info: RepositoryInfo, first: Commit, who: str) -> None:
        refs = RefsSnapshot((BranchState(info.default_branch, first.id),), (), (first,))
        self._create(info, refs, who, RefVerb.CREATE_REPOSITORY)

    def restore_repository(
        self,
        info: RepositoryInfo,
        refs: RefsSnapshot,
        who: str,
        collected: Collection[CommitId] = (),
    ) -> None:
        self._create(info, refs, who, RefVerb.RESTORE_REPOSITORY, sorted(collected))

    def _create(
        self,
        info: RepositoryInfo,
        refs: RefsSnapshot,
        who: str,
        verb: RefVerb,
        collected: Sequence[CommitId] = (),
    ) -> None:
        with self._connections.transaction() as connection:
            # One creation at a time: two new namespaces could overlap.
            connection.execute("LOCK TABLE sparklake.repositories IN SHARE ROW EXCLUSIVE MODE")
            _refuse_taken(connection, info)
            _insert_repository(connection, info)
            commits.insert_commits(connection, info.uid, refs.commits)
            commits.mark_expired(connection, info.uid, collected, info.creation_date)
            commits.mark_collected(connection, info.uid, collected)
            _insert_names(connection, info, refs)
            for each in refs.named:
                commits.log_operation(
                    connection, info.uid, who, verb.value, each.name, new=each.commit_id
                )

    def find_repository(self, name: str) -> RepositoryInfo | None:
        rows = self._connections.fetch(_SELECT + " WHERE r.name = %(name)s", {"name": name})
        return _info(rows[0]) if rows else None

    def list_repositories(self) -> Sequence[RepositoryInfo]:
        rows = self._connections.fetch(_SELECT + " ORDER BY r.name", {})
        return [_info(row) for row in rows]

    def delete_repository(self, name: str, *, force: bool = False) -> None:
        def delete(connection: Session) -> None:
            row = connection.execute(
                "SELECT uid, read_only FROM sparklake.repositories WHERE name = %s FOR UPDATE",
                (name,),
            ).fetchone()
            if row is None:
                raise RepositoryNotFoundError(f"there is no repository {name!r}")
            uid, read_only = row
            if read_only and not force:
                raise read_only_error()
            drop_repository_layers(connection, uid)
            connection.execute("DELETE FROM sparklake.branches WHERE repository_uid = %s", (uid,))
            connection.execute("DELETE FROM sparklake.tags WHERE repository_uid = %s", (uid,))
            connection.execute("DELETE FROM sparklake.repositories WHERE uid = %s", (uid,))

        self._connections.retried(delete)

    def refs(self, uid: str, *, force: bool = False) -> PostgresRefs:
        return PostgresRefs(self._connections, Scope(uid, force))

    def close(self) -> None:
        self._connections.close()


class PostgresRefs:
    def __init__(self, connections: Connections, scope: Scope) -> None:
        self._connections = connections
        self._scope = scope
        self._uid = scope.uid
        self.branches = PostgresBranches(connections, scope)
        self.tags = PostgresTags(connections, scope)
        self.commits = commits.PostgresCommits(connections, scope)
        self.staging = PostgresStaging(connections, scope)
        self.operations = commits.PostgresOperations(connections, scope)
        self.settings = PostgresSettings(connections, scope)
        self.hook_runs = registers.PostgresHookRuns(connections, scope)
        self.purges = registers.PostgresPurges(connections, scope)
        self.writes = PostgresWrites(connections, scope)
        self.once_keys = PostgresOnceKeys(connections, scope)
        self.collections = registers.PostgresCollections(connections, scope)

    @property
    def tree_sweeps(self) -> int:
        return self._scope.sweeps.count

    def snapshot(self) -> RefsSnapshot:
        with self._connections.transaction(registers.ONE_MOMENT) as connection:
            return registers.snapshot_of(connection, self._uid)


def _info(row: tuple[Any, ...]) -> RepositoryInfo:
    name, uid, namespace, default_branch, range_records, date, *settings = row
    return RepositoryInfo(
        name=name,
        uid=uid,
        storage_namespace=namespace,
        default_branch=default_branch,
        range_records=range_records,
        creation_date=date,
        settings=settings_of(*settings),
    )


def _refuse_taken(connection: Session, info: RepositoryInfo) -> None:
    match = connection.execute(
        "SELECT 1 FROM sparklake.repositories WHERE name = %s OR uid = %s", (info.name, info.uid)
    ).fetchone()
    if match is not None:
        raise AlreadyExistsError(f"the repository {info.name!r} already exists")
    # Not in SQL: only this machine can resolve the links of its file systems.
    others = connection.execute(
        "SELECT name, storage_namespace FROM sparklake.repositories ORDER BY name"
    ).fetchall()
    refuse_overlapping(info.storage_namespace, others)


def _insert_repository(connection: Session, info: RepositoryInfo) -> None:
    connection.execute(
        """
        INSERT INTO sparklake.repositories
            (uid, name, storage_namespace, default_branch, creation_date, read_only, protection,
             metadata, retention)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
        """,
        (
            info.uid,
            info.name,
            info.storage_namespace,
            info.default_branch,
            info.creation_date,
            *columns_of(info.settings),
        ),
    )
    connection.execute(
        "INSERT INTO sparklake.settings (repository_uid, name, value) VALUES (%s, %s, %s)",
        (info.uid, _RANGE_RECORDS, Jsonb(info.range_records)),
    )


def _insert_names(connection: Session, info: RepositoryInfo, refs: RefsSnapshot) -> None:
    cursor, uid = connection.cursor(), info.uid
    guards = [info.settings.guard(each.name) for each in refs.branches]
    cursor.executemany(
        "INSERT INTO sparklake.branches"
        " (repository_uid, name, commit_id, hidden, read_only, protected)"
        " VALUES (%s, %s, %s, %s, %s, %s)",
        [
            (uid, each.name, each.commit_id, each.hidden, guard.read_only, sorted(guard.protected))
            for each, guard in zip(refs.branches, guards, strict=True)
        ],
    )
    insert_tags(connection, uid, refs.tags)
