"""Branch rows and staging layers, and their locks.

Locks are always acquired in this order: repository, branch, layer, rows. A change to a branch's set
of layers, and the seal of a layer, locks the branch. A writer of rows locks its layer FOR SHARE,
and a seal waits for this lock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparklake.errors import RefNotFoundError
from sparklake.graveler.guards import Action, Guard, check_fence
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.ports import Layer, LayerCut, LayerKind
from sparklake.stores.postgres.connections import Connections
from sparklake.stores.postgres.sessions import Answer, Session

if TYPE_CHECKING:
    from typing_extensions import LiteralString


@dataclass(slots=True)
class SeenSweeps:
    """The highest number of tree sweeps in any read."""

    count: int = 0

    def see(self, count: int) -> None:
        self.count = max(self.count, count)


@dataclass(frozen=True, slots=True)
class Scope:
    """The repository to change. With `force`, it may be read-only."""

    uid: str
    force: bool = False
    sweeps: SeenSweeps = field(default_factory=SeenSweeps, compare=False)


class RepositoryPart:
    """One of the registers behind a repository's refs."""

    def __init__(self, connections: Connections, scope: Scope) -> None:
        self._connections = connections
        self._scope = scope
        self._uid = scope.uid

    def _fetch(self, query: LiteralString, **values: object) -> list[tuple[Any, ...]]:
        return self._connections.fetch(query, {"uid": self._uid, **values})


TREE_SWEEPS = "(SELECT tree_sweeps FROM sparklake.repositories WHERE uid = %(uid)s)"
"""The number of tree sweeps, for reads of refs and commits."""


PERMITS = "(%(force)s::boolean OR NOT read_only) AND NOT protected && %(actions)s::text[]"
"""The condition that the guard of a branch permits some actions."""

_SEAL: LiteralString = """
    UPDATE sparklake.layers SET sealed = true
    WHERE repository_uid = %s AND branch = %s AND NOT sealed
"""
_SEAL_IF_PERMITTED = f"""
    UPDATE sparklake.layers l SET sealed = true FROM sparklake.branches b
    WHERE b.repository_uid = %(uid)s AND b.name = %(branch)s AND {PERMITS}
        AND l.repository_uid = b.repository_uid AND l.branch = b.name AND NOT l.sealed
"""  # noqa: S608  (a condition, no values)
_BRANCH = """
    SELECT commit_id, read_only, protected, fence FROM sparklake.branches
    WHERE repository_uid = %s AND name = %s
"""


def lock_branch(
    connection: Session,
    scope: Scope,
    branch: str,
    *actions: Action | None,
    fence: int | None = None,
    query: LiteralString = f"{_BRANCH} FOR UPDATE",
) -> Answer[CommitId]:
    """Lock a branch until the transaction ends; answer its head if guard and fence permit."""
    cursor = connection.execute(query, (scope.uid, branch))

    def head() -> CommitId:
        row = cursor.fetchone()
        if row is None:
            raise RefNotFoundError(f"there is no branch {branch!r}")
        commit_id: CommitId
        commit_id, read_only, protected, current_fence = row
        guard_of(read_only and not scope.force, protected).check(branch, *actions)
        check_fence(branch, current_fence, fence)
        return commit_id

    return head


def read_branch(
    connection: Session, scope: Scope, branch: str, *actions: Action | None, fence: int
) -> Answer[CommitId]:
    """Answer the head of a branch if guard and fence permit. The branch is not locked."""
    return lock_branch(connection, scope, branch, *actions, fence=fence, query=_BRANCH)


def guard_of(read_only: bool, protected: Sequence[str]) -> Guard:
    return Guard(read_only, frozenset(map(Action, protected)))


def layers_of(connection: Session, uid: str, branch: str) -> Answer[tuple[Layer, ...]]:
    """Answer the layers of a locked branch, newest first."""
    cursor = connection.execute(
        "SELECT id, kind, sealed, meta_range_id FROM sparklake.layers"
        " WHERE repository_uid = %s AND branch = %s ORDER BY id DESC",
        (uid, branch),
    )
    return lambda: tuple(map(layer_of, cursor))


def layer_of(row: tuple[Any, ...]) -> Layer:
    layer_id, kind, sealed, meta_range_id = row
    return Layer(layer_id, LayerKind(kind), sealed, meta_range_id)


def insert_run(connection: Session, uid: str, branch: str, meta_range_id: MetaRangeId) -> int:
    """Add a sealed layer to a locked branch; return its id."""
    row = connection.execute(
        "INSERT INTO sparklake.layers (repository_uid, branch, kind, sealed, meta_range_id)"
        " VALUES (%s, %s, %s, true, %s) RETURNING id",
        (uid, branch, LayerKind.RUN.value, meta_range_id),
    ).fetchone()
    assert row is not None
    return int(row[0])


def seal_layers(connection: Session, uid: str, branch: str) -> None:
    """Seal the layers of a locked branch, after the writes in progress."""
    connection.execute(_SEAL, (uid, branch))


def seal_layers_if_permitted(
    connection: Session, scope: Scope, branch: str, *actions: Action
) -> None:
    """Seal the layers of a locked branch whose guard permits some actions."""
    condition = {"force": scope.force, "actions": [each.value for each in actions]}
    connection.execute(_SEAL_IF_PERMITTED, {"uid": scope.uid, "branch": branch, **condition})


def drop_sealed_layers(
    connection: Session, uid: str, branch: str, layer_ids: Sequence[int]
) -> Answer[bool]:
    """Remove sealed layers of a branch; answer whether all existed. If not, roll back."""
    ids = sorted(set(layer_ids))
    if not ids:
        return lambda: True
    deletion = connection.execute(
        "DELETE FROM sparklake.layers WHERE repository_uid = %s AND branch = %s"
        " AND id = ANY(%s::bigint[]) AND sealed",
        (uid, branch, ids),
    )
    _drop_rows(connection, ids)
    return lambda: deletion.rowcount == len(ids)


def drop_layers(connection: Session, uid: str, branch: str) -> None:
    rows = connection.execute(
        "DELETE FROM sparklake.layers WHERE repository_uid = %s AND branch = %s RETURNING id",
        (uid, branch),
    ).fetchall()
    _drop_rows(connection, [layer_id for (layer_id,) in rows])


def cut_layers(
    connection: Session, uid: str, branch: str, layer_ids: Collection[int], cut: LayerCut
) -> bool:
    """Remove records from sealed layers of a locked branch; return whether all exist.

    All layers of the branch get new ids, in the same order. This waits for writes into an open
    layer.
    """
    layers = layers_of(connection, uid, branch)()
    if not {each.id for each in layers if each.sealed}.issuperset(layer_ids):
        return False
    # The oldest comes first: a later layer must keep the higher id.
    for layer in reversed(layers):
        if layer.id in layer_ids:
            _drop_from_layer(connection, layer, cut.within)
        _renew_layer(connection, layer, cut.runs.get(layer.id, layer.meta_range_id))
    return True


def _drop_from_layer(connection: Session, layer: Layer, within: Sequence[Interval]) -> None:
    connection.execute(
        """
        DELETE FROM sparklake.staged_rows r
        USING unnest(%(starts)s::bytea[], %(stops)s::bytea[]) AS cut (start, stop)
        WHERE r.layer_id = %(layer)s AND r.key >= cut.start
            AND (cut.stop IS NULL OR r.key < cut.stop)
        """,
        {
            "layer": layer.id,
            "starts": [each.start for each in within],
            "stops": [each.stop for each in within],
        },
    )


def _renew_layer(connection: Session, layer: Layer, run: MetaRangeId | None) -> None:
    """Give a layer the highest id, or remove it if it is empty. `run` is its new run."""
    renewed = connection.execute(
        """
        UPDATE sparklake.layers l SET id = DEFAULT, meta_range_id = nullif(%(run)s::text, '')
        WHERE l.id = %(layer)s AND (coalesce(%(run)s::text, '') <> ''
            OR EXISTS (SELECT 1 FROM sparklake.staged_rows r WHERE r.layer_id = l.id))
        RETURNING id
        """,
        {"layer": layer.id, "run": run},
    ).fetchone()
    if renewed is None:
        connection.execute("DELETE FROM sparklake.layers WHERE id = %s", (layer.id,))
        return
    connection.execute(
        "UPDATE sparklake.staged_rows SET layer_id = %s WHERE layer_id = %s", (renewed[0], layer.id)
    )


def lock_branches(connection: Session, uid: str) -> Sequence[tuple[Any, ...]]:
    """Lock all branches in the order of names; return their names, read-only and protected."""
    return connection.execute(
        "SELECT name, read_only, protected FROM sparklake.branches"
        " WHERE repository_uid = %s ORDER BY name FOR UPDATE",
        (uid,),
    ).fetchall()


def drop_repository_layers(connection: Session, uid: str) -> None:
    """Remove every layer of a locked repository, after locking its branches."""
    lock_branches(connection, uid)
    rows = connection.execute(
        "DELETE FROM sparklake.layers WHERE repository_uid = %s RETURNING id", (uid,)
    ).fetchall()
    _drop_rows(connection, [layer_id for (layer_id,) in rows])


def _drop_rows(connection: Session, layer_ids: Sequence[int]) -> None:
    """Delete the rows of deleted layers.

    It must be a separate statement: the deletion of the layers waited for their writers, and
    only a later statement sees the rows of these writers.
    """
    if layer_ids:
        connection.execute(
            "DELETE FROM sparklake.staged_rows WHERE layer_id = ANY(%s::bigint[])",
            (list(layer_ids),),
        )
