"""Collections, purges and hook runs of one repository, in Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields
from typing import Any, TypeVar

import msgspec
from psycopg.types.json import Jsonb

from sparklake.errors import SparklakeError
from sparklake.graveler.guards import read_only_error
from sparklake.graveler.ports import LayerKind, RefsSnapshot, RepositorySnapshot, registers
from sparklake.graveler.repository_moments import (
    collection_running_error,
    purge_running_error,
    repository_snapshot,
)
from sparklake.stores.postgres.branch_rows import RepositoryPart, lock_branches
from sparklake.stores.postgres.branches import all_branches
from sparklake.stores.postgres.commits import all_commits, mark_collected, mark_expired
from sparklake.stores.postgres.connections import Connections
from sparklake.stores.postgres.copied_rows import CopiedRows
from sparklake.stores.postgres.leases import leased
from sparklake.stores.postgres.sessions import Session
from sparklake.stores.postgres.settings import lock_settings, settings_of
from sparklake.stores.postgres.staging import layer_rows
from sparklake.stores.postgres.tags import all_tags

T = TypeVar("T", registers.Purge, registers.HookRun)

ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_NOW = """
    SELECT read_only, protection, metadata, retention,
           floor(extract(epoch FROM clock_timestamp()))::bigint
    FROM sparklake.repositories WHERE uid = %(uid)s
"""

_EXPIRED = """
    SELECT commit_id, expired_at, tree_collected
    FROM sparklake.expired_commits WHERE repository_uid = %(uid)s
"""


class PostgresCollections(RepositoryPart):
    def alone(self) -> AbstractContextManager[registers.HeldCheck]:
        return _held(self._connections, f"{self._uid} collection", collection_running_error)

    def alone_with_tree_files(self) -> AbstractContextManager[registers.HeldCheck]:
        return _held(self._connections, f"{self._uid} tables", collection_running_error)

    def look(self, *, rows: bool = True) -> RepositorySnapshot:
        with self._connections.transaction(ONE_MOMENT) as connection:
            return _moment(connection, self._uid, rows=rows)[0]

    def begin(
        self, *, trees: bool = False, expires: bool = True, rows: bool = True
    ) -> RepositorySnapshot:
        def raise_fences(connection: Session) -> RepositorySnapshot:
            lock_settings(connection, self._scope)
            _raise_fences(connection, self._uid)
            # Each statement sees everything published. Nothing can be published while the locks
            # are held, so all of them see the same.
            moment, now = _moment(connection, self._uid, rows=rows)
            if expires:
                mark_expired(connection, self._uid, sorted(moment.expiring), now)
            if trees:
                mark_collected(connection, self._uid, sorted(moment.collecting))
            return moment

        return self._connections.retried(raise_fences)

    def end_tree_sweep(self) -> None:
        with self._connections.transaction() as connection:
            connection.execute(
                "UPDATE sparklake.repositories SET tree_sweeps = tree_sweeps + 1 WHERE uid = %s",
                (self._uid,),
            )


@contextmanager
def _held(
    connections: Connections, name: str, error: Callable[[], SparklakeError]
) -> Iterator[registers.HeldCheck]:
    """Hold a lock; raise `error` if it is held elsewhere. Yield a check that it is still held."""
    with leased(connections, name, 0) as lease:
        if lease is None:
            raise error()

        def check() -> None:
            if not lease.renew():
                raise error()

        yield check


def snapshot_of(connection: Session, uid: str) -> RefsSnapshot:
    """Return all refs and all commits, within a transaction of one snapshot."""
    return RefsSnapshot(
        tuple(all_branches(connection, uid)),
        tuple(all_tags(connection, uid)),
        tuple(all_commits(connection, uid)),
    )


def _moment(connection: Session, uid: str, *, rows: bool) -> tuple[RepositorySnapshot, int]:
    """Return a repository, with `rows` those of its layers, and the time in unix seconds."""
    refs, copies = snapshot_of(connection, uid), CopiedRows()
    layers = (layer for each in refs.branches for layer in each.layers)
    for layer in layers if rows else ():
        if layer.kind is LayerKind.ROWS:
            copies.add(layer.id, layer_rows(connection, uid, layer.id))
    row = connection.execute(_NOW, {"uid": uid}).fetchone()
    if row is None:
        return RepositorySnapshot(refs, copies.read), 0
    *columns, now = row
    expired = connection.execute(_EXPIRED, {"uid": uid}).fetchall()
    moment = repository_snapshot(
        refs,
        copies.read,
        retention=settings_of(*columns).retention,
        expired_at={commit_id: date for commit_id, date, _ in expired},
        collected={commit_id for commit_id, _, is_collected in expired if is_collected},
        now=now,
    )
    return moment, now


def _raise_fences(connection: Session, uid: str) -> None:
    """Raise the fences of a locked repository, after the writes in progress."""
    connection.execute("UPDATE sparklake.repositories SET fence = fence + 1 WHERE uid = %s", (uid,))
    lock_branches(connection, uid)
    connection.execute(
        "UPDATE sparklake.branches b SET fence = r.fence FROM sparklake.repositories r"
        " WHERE r.uid = %(uid)s AND b.repository_uid = r.uid",
        {"uid": uid},
    )
    connection.execute(
        "UPDATE sparklake.layers SET sealed = true WHERE repository_uid = %s AND NOT sealed", (uid,)
    )


_SELECT_PURGES = """
    SELECT id, who, date, message, patterns, state, counts, even_shared, also_external
    FROM sparklake.purges WHERE repository_uid = %(uid)s
"""


class PostgresPurges(RepositoryPart):
    def alone(self) -> AbstractContextManager[registers.HeldCheck]:
        return _held(self._connections, f"{self._uid} purge", purge_running_error)

    def add(self, purge: registers.Purge) -> None:
        with self._connections.transaction() as connection:
            row = connection.execute(
                "SELECT read_only FROM sparklake.repositories WHERE uid = %s FOR SHARE",
                (self._uid,),
            ).fetchone()
            if row is None:
                return
            if row[0] and not self._scope.force:
                raise read_only_error()
            connection.execute(
                """
                INSERT INTO sparklake.purges
                    (repository_uid, id, who, date, message, patterns, state, counts,
                     even_shared, also_external)
                VALUES (%(uid)s, %(id)s, %(who)s, %(date)s, %(message)s, %(patterns)s, %(state)s,
                        %(counts)s, %(include_shared)s, %(include_external)s)
                """,
                {
                    **asdict(purge),
                    "uid": self._uid,
                    "patterns": Jsonb(list(purge.patterns)),
                    "state": purge.state.value,
                    "counts": Jsonb(asdict(purge.counts)),
                },
            )

    def find(self, purge_id: str) -> registers.Purge | None:
        rows = self._fetch(_SELECT_PURGES + " AND id = %(id)s", id=purge_id)
        return _decoded(registers.Purge, rows[0]) if rows else None

    def list(self) -> Sequence[registers.Purge]:
        rows = self._fetch(_SELECT_PURGES + " ORDER BY sequence DESC")
        return [_decoded(registers.Purge, row) for row in rows]

    def finish(self, purge_id: str) -> None:
        with self._connections.transaction() as connection:
            connection.execute(
                "UPDATE sparklake.purges SET state = %s WHERE repository_uid = %s AND id = %s",
                (registers.PurgeState.DONE.value, self._uid, purge_id),
            )


_SELECT_RUNS = """
    SELECT id, event, ref, commit_id, who, date, status, hooks
    FROM sparklake.hook_runs WHERE repository_uid = %(uid)s
"""


class PostgresHookRuns(RepositoryPart):
    def add(self, run: registers.HookRun) -> None:
        with self._connections.transaction() as connection:
            connection.execute(
                """
                INSERT INTO sparklake.hook_runs
                    (repository_uid, id, event, ref, commit_id, who, date, status, hooks)
                SELECT uid, %(id)s, %(event)s, %(ref)s, %(commit_id)s, %(who)s, %(date)s,
                       %(status)s, %(hooks)s
                FROM sparklake.repositories WHERE uid = %(uid)s
                """,
                {
                    **asdict(run),
                    "uid": self._uid,
                    "status": run.status.value,
                    "hooks": Jsonb([asdict(each) for each in run.hooks]),
                },
            )

    def find(self, run_id: str) -> registers.HookRun | None:
        rows = self._fetch(_SELECT_RUNS + " AND id = %(id)s", id=run_id)
        return _decoded(registers.HookRun, rows[0]) if rows else None

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[registers.HookRun]:
        rows = self._fetch(
            _SELECT_RUNS + " AND (%(ref)s::text IS NULL OR ref = %(ref)s)"
            " ORDER BY sequence DESC LIMIT %(limit)s",
            ref=ref,
            limit=limit,
        )
        return [_decoded(registers.HookRun, row) for row in rows]


def _decoded(kind: type[T], row: Sequence[Any]) -> T:
    """Convert a row to a dataclass with its fields in the order of the columns."""
    names = (each.name for each in fields(kind))
    return msgspec.convert(dict(zip(names, row, strict=True)), kind)
