"""The branches of one repository, in Postgres."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any

import psycopg

from sparklake.errors import (
    AlreadyExistsError,
    RaceLostError,
    RefNotFoundError,
    RefStoreUnavailableError,
)
from sparklake.graveler.ports import BranchMove, BranchState, RefVerb
from sparklake.stores.postgres.commits import insert_commit
from sparklake.stores.postgres.layers import (
    drop_layers,
    drop_sealed_layers,
    layer_of,
    lock_branch,
)
from sparklake.stores.postgres.operations import log_operation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sparklake.graveler.ids import CommitId
    from sparklake.stores.postgres.connections import Connections

# One statement: head and layers are of one moment.
_SELECT = """
    SELECT b.name, b.commit_id, l.id, l.kind, l.sealed, l.meta_range_id
    FROM sparklake.branches b
    LEFT JOIN sparklake.layers l ON l.repository_uid = b.repository_uid AND l.branch = b.name
    WHERE b.repository_uid = %(uid)s
"""

_IN_ORDER = " ORDER BY b.name, l.id DESC"

# The name of a lock, as a number.
_TURN = "hashtextextended(%(turn)s, 0)"


class PostgresBranches:
    """Holds the branches of one repository."""

    def __init__(self, connections: Connections, uid: str) -> None:
        self._connections = connections
        self._uid = uid

    def create(self, name: str, commit_id: CommitId, who: str) -> BranchState:
        """Creates a branch."""
        with self._connections.transaction() as connection:
            try:
                made = connection.execute(
                    "INSERT INTO sparklake.branches (repository_uid, name, commit_id)"
                    " VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    (self._uid, name, commit_id),
                ).rowcount
            except psycopg.errors.ForeignKeyViolation:
                raise RefNotFoundError(f"there is no commit {commit_id!r}") from None
            if not made:
                raise AlreadyExistsError(f"there is a branch {name!r} already")
            verb = RefVerb.CREATE_BRANCH.value
            log_operation(connection, self._uid, who, verb, name, None, commit_id)
        return BranchState(name, commit_id)

    def find(self, name: str) -> BranchState | None:
        """Returns a branch and its layers as of one moment."""
        rows = self._connections.fetch(
            _SELECT + " AND b.name = %(name)s" + _IN_ORDER,
            {"uid": self._uid, "name": name},
        )
        return next(iter(_branches(rows)), None)

    def list(self) -> Sequence[BranchState]:
        """Returns all branches in the byte order of their names."""
        return _branches(self._connections.fetch(_SELECT + _IN_ORDER, {"uid": self._uid}))

    def delete(self, name: str, who: str) -> None:
        """Deletes a branch and what is staged on it."""
        with self._connections.transaction() as connection:
            head = lock_branch(connection, self._uid, name)
            drop_layers(connection, self._uid, name)
            connection.execute(
                "DELETE FROM sparklake.branches WHERE repository_uid = %s AND name = %s",
                (self._uid, name),
            )
            verb = RefVerb.DELETE_BRANCH.value
            log_operation(connection, self._uid, who, verb, name, head, None)

    def move(self, move: BranchMove) -> None:
        """Applies a compare-and-swap, all of it or nothing."""
        with self._connections.transaction() as connection:
            for each in move.commits:
                insert_commit(connection, self._uid, each, move.touched.get(each.id))
            self._swap(connection, move)
            applied = sorted(set(move.applied_layers))
            if drop_sealed_layers(connection, self._uid, move.branch, applied) != len(applied):
                raise RaceLostError(f"staged changes of {move.branch!r} were taken by another")
            if move.to != move.expected:
                log_operation(
                    connection,
                    self._uid,
                    move.who,
                    move.verb,
                    move.branch,
                    move.expected,
                    move.to,
                )

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        """Holds the turn of a branch, after those who asked for it before."""
        with ExitStack() as held:
            connection = held.enter_context(self._connections.transaction())
            _wait_for_turn(connection, self._turn(name), seconds)
            yield
            # What was done in turn is done, even where the server has gone away meanwhile.
            with suppress(RefStoreUnavailableError):
                held.close()

    def is_turn_held(self, name: str) -> bool:
        """Tells whether someone holds the turn of a branch."""
        # As a statement of its own it gives back at once what it gets.
        query = f"SELECT NOT pg_try_advisory_xact_lock({_TURN})"
        ((is_held,),) = self._connections.fetch(query, {"turn": self._turn(name)})
        return bool(is_held)

    def _turn(self, name: str) -> str:
        return f"{self._uid}/{name}"

    def _swap(self, connection: psycopg.Connection, move: BranchMove) -> None:
        try:
            swapped = connection.execute(
                "UPDATE sparklake.branches SET commit_id = %s"
                " WHERE repository_uid = %s AND name = %s AND commit_id = %s",
                (move.to, self._uid, move.branch, move.expected),
            ).rowcount
        except psycopg.errors.ForeignKeyViolation:
            raise RefNotFoundError(f"there is no commit {move.to!r}") from None
        if not swapped:
            head = lock_branch(connection, self._uid, move.branch)
            raise RaceLostError(f"branch {move.branch!r} has moved to {head}")


def all_branches(connection: psycopg.Connection, uid: str) -> Sequence[BranchState]:
    """Returns all branches in the byte order of their names, as part of a transaction."""
    return _branches(connection.execute(_SELECT + _IN_ORDER, {"uid": uid}).fetchall())


def _wait_for_turn(connection: psycopg.Connection, turn: str, seconds: float) -> None:
    """Takes a lock that goes with the transaction; Postgres serves who waits in order."""
    # 0 would be no bound at all.
    bound = f"{max(round(seconds * 1000), 1)}ms"
    connection.execute("SELECT set_config('lock_timeout', %s, true)", (bound,))
    with suppress(psycopg.errors.LockNotAvailable):
        connection.execute(f"SELECT pg_advisory_xact_lock({_TURN})", {"turn": turn})


def _branches(rows: Sequence[tuple[Any, ...]]) -> Sequence[BranchState]:
    """Returns the branches of joined rows, which come by branch, its newest layer first."""
    return [
        BranchState(
            name, commit_id, tuple(layer_of(row[2:]) for row in joined if row[2] is not None)
        )
        for (name, commit_id), joined in groupby(rows, key=lambda row: row[:2])
    ]
