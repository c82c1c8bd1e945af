"""Branches with their layers, as of one moment."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sparklake.graveler.ports import BranchState
from sparklake.stores.postgres.layers import Scope, guard_of, layer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

# One statement: a branch and its layers are of one moment. A `force` sees nothing as read-only.
_SELECT = """
    SELECT b.name, b.commit_id, b.hidden, floor(extract(epoch FROM b.expires))::bigint,
           coalesce(b.expires <= clock_timestamp(), false), b.read_only AND NOT %(force)s::boolean,
           b.protected, b.fence, l.id, l.kind, l.sealed, l.meta_range_id
    FROM sparklake.branches b
    LEFT JOIN sparklake.layers l ON l.repository_uid = b.repository_uid AND l.branch = b.name
    WHERE b.repository_uid = %(uid)s
"""
_OWN_COLUMNS = 8

ALL_BRANCHES = _SELECT + " ORDER BY b.name, l.id DESC"
ONE_BRANCH = _SELECT + " AND b.name = %(name)s ORDER BY l.id DESC"


def locked_state(connection: psycopg.Connection, scope: Scope, name: str) -> BranchState:
    """Returns a branch that is locked, and therefore there."""
    values = {"uid": scope.uid, "force": scope.force, "name": name}
    (found,) = states_of(connection.execute(ONE_BRANCH, values).fetchall())
    return found


def all_branches(connection: psycopg.Connection, uid: str) -> Sequence[BranchState]:
    """Returns all branches in the byte order of their names, as part of a transaction."""
    return states_of(connection.execute(ALL_BRANCHES, {"uid": uid, "force": False}).fetchall())


def states_of(rows: Sequence[tuple[Any, ...]]) -> Sequence[BranchState]:
    """Returns the branches of selected rows, which come by branch, its newest layer first."""
    return [_state(list(joined)) for _, joined in groupby(rows, key=itemgetter(0))]


def _state(rows: Sequence[tuple[Any, ...]]) -> BranchState:
    own = rows[0][:_OWN_COLUMNS]
    name, commit_id, hidden, expires, is_expired, read_only, protected, fence = own
    return BranchState(
        name=name,
        commit_id=commit_id,
        layers=tuple(layer_of(row[_OWN_COLUMNS:]) for row in rows if row[_OWN_COLUMNS] is not None),
        hidden=hidden,
        expires=expires,
        is_expired=is_expired,
        guard=guard_of(read_only, protected),
        fence=fence,
    )
