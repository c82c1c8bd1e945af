"""Branches of one repository with their layers, in Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg

from sparklake.errors import AlreadyExistsError, DirtyBranchError, RaceLostError, RefNotFoundError
from sparklake.graveler.guards import Action, actions_of
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchMove, BranchState, Layer, LayerKind, RefVerb
from sparklake.graveler.ports.once import OnceRecord
from sparklake.stores.postgres import branch_rows, commits
from sparklake.stores.postgres.leases import is_leased, leased
from sparklake.stores.postgres.once import add_once_record
from sparklake.stores.postgres.sessions import Answer, Session
from sparklake.stores.postgres.settings import hold_settings, lock_settings, set_settings

# One statement reads a branch and its layers at one moment. With `force` nothing is read-only.
_COLUMNS = f"""
    SELECT b.name, b.commit_id, b.hidden, floor(extract(epoch FROM b.expires))::bigint,
           coalesce(b.expires <= clock_timestamp(), false), b.read_only AND NOT %(force)s::boolean,
           b.protected, b.fence, {branch_rows.TREE_SWEEPS}, l.id, l.kind, l.sealed, l.meta_range_id
"""  # noqa: S608  (an expression, no values)
_TABLES = """
    FROM sparklake.branches b
    LEFT JOIN sparklake.layers l ON l.repository_uid = b.repository_uid AND l.branch = b.name
"""
_SWEEPS = 8
"""The column with the number of tree sweeps. A layer follows, and the head if it is read."""
_LAYER = slice(9, 13)

ALL_BRANCHES = f"""
    {_COLUMNS} {_TABLES} WHERE b.repository_uid = %(uid)s ORDER BY b.name, l.id DESC
"""
_WITH_HEADS = f"""
    {_COLUMNS}, {commits.COLUMNS} {_TABLES}
    LEFT JOIN sparklake.commits c ON c.repository_uid = b.repository_uid AND c.id = b.commit_id
    WHERE b.repository_uid = %(uid)s
"""
ONE_BRANCH = f"{_WITH_HEADS} AND b.name = %(name)s ORDER BY l.id DESC"
HEADS = f"{_WITH_HEADS} ORDER BY b.name, l.id DESC"


def locked_state(connection: Session, scope: branch_rows.Scope, name: str) -> Answer[BranchState]:
    values = {"uid": scope.uid, "force": scope.force, "name": name}
    cursor = connection.execute(ONE_BRANCH, values)
    return lambda: states_of(cursor.fetchall(), scope)[0]


def all_branches(connection: Session, uid: str) -> Sequence[BranchState]:
    """Return all branches in the byte order of their names, within a transaction."""
    return states_of(connection.execute(ALL_BRANCHES, {"uid": uid, "force": False}).fetchall())


def states_of(
    rows: Sequence[tuple[Any, ...]], scope: branch_rows.Scope | None = None
) -> Sequence[BranchState]:
    """Group rows, sorted by branch and newest layer, by branch. A scope notes tree sweeps."""
    if rows and scope is not None:
        scope.sweeps.see(rows[0][_SWEEPS])
    return [_state(list(joined)) for _, joined in groupby(rows, key=itemgetter(0))]


def _state(rows: Sequence[tuple[Any, ...]]) -> BranchState:
    name, commit_id, hidden, expires, is_expired, read_only, protected, fence = rows[0][:_SWEEPS]
    head = rows[0][_LAYER.stop :]
    return BranchState(
        name=name,
        commit_id=commit_id,
        layers=tuple(
            branch_rows.layer_of(row[_LAYER]) for row in rows if row[_LAYER.start] is not None
        ),
        hidden=hidden,
        expires=expires,
        is_expired=is_expired,
        guard=branch_rows.guard_of(read_only, protected),
        fence=fence,
        head=commits.commit_of(*head) if any(head) else None,
    )


_CREATE = f"""
    INSERT INTO sparklake.branches
        (repository_uid, name, commit_id, hidden, expires, read_only, protected, fence)
    SELECT %(uid)s, %(name)s, %(commit)s, %(hidden)s, clock_timestamp() + %(lifetime)s::interval,
           %(read_only)s, %(protected)s::text[],
           coalesce((SELECT fence FROM sparklake.repositories WHERE uid = %(uid)s), 0)
    WHERE {commits.IS_KEPT} ON CONFLICT DO NOTHING
"""  # noqa: S608  (a condition, no values)

_COPY = """
    INSERT INTO sparklake.branches
        (repository_uid, name, commit_id, hidden, expires, read_only, protected, fence)
    SELECT repository_uid, %(new_name)s, commit_id, hidden, expires, %(read_only)s,
           %(protected)s::text[], fence
    FROM sparklake.branches WHERE repository_uid = %(uid)s AND name = %(name)s
    ON CONFLICT DO NOTHING
"""

_SWAP = f"""
    UPDATE sparklake.branches SET commit_id = %(commit)s
    WHERE repository_uid = %(uid)s AND name = %(branch)s AND commit_id = %(expected)s
        AND {branch_rows.PERMITS} AND fence = %(fence)s
        AND (%(is_new)s::boolean OR {commits.IS_KEPT})
"""  # noqa: S608


class PostgresBranches(branch_rows.RepositoryPart):
    def create(
        self,
        name: str,
        commit_id: CommitId,
        who: str,
        *,
        hidden: bool = False,
        lifetime: timedelta | None = None,
        once: OnceRecord | None = None,
    ) -> BranchState:
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, once)
            with connection.batch():
                settings = hold_settings(connection, self._scope)
                check_claim = commits.claim_name(connection, self._uid, name, "tag")
            guard = settings().guard(name)
            check_claim()
            try:
                with connection.batch():
                    creation = connection.execute(
                        _CREATE,
                        {
                            "uid": self._uid,
                            "name": name,
                            "commit": commit_id,
                            "hidden": hidden,
                            "lifetime": lifetime,
                            "read_only": guard.read_only,
                            "protected": sorted(guard.protected),
                        },
                    )
                    state = locked_state(connection, self._scope, name)
            except psycopg.errors.ForeignKeyViolation:
                raise RefNotFoundError(f"there is no commit {commit_id!r}") from None
            if not creation.rowcount:
                commits.check_not_expired(connection, self._uid, commit_id)
                raise AlreadyExistsError(
                    f"the branch {name!r} already exists; --exist-ok accepts it"
                )
            verb = RefVerb.CREATE_BRANCH.value
            commits.log_and_commit(connection, self._uid, who, verb, name, new=commit_id)
            return state()

    def find(self, name: str) -> BranchState | None:
        rows = self._fetch(ONE_BRANCH, force=self._scope.force, name=name)
        return next(iter(states_of(rows, self._scope)), None)

    def list(self) -> Sequence[BranchState]:
        rows = self._fetch(HEADS, force=self._scope.force)
        return states_of(rows, self._scope)

    def delete(
        self, name: str, who: str, *, discard_staged: bool = False, if_expired: bool = False
    ) -> None:
        with self._connections.transaction() as connection:
            with connection.batch():
                lock = branch_rows.lock_branch(connection, self._scope, name, Action.DELETE)
                # A locked branch gets no new layers, and a layer has rows.
                read = locked_state(connection, self._scope, name)
            head, state = lock(), read()
            if if_expired and not state.may_be_pruned:
                raise RaceLostError(f"branch {name!r} is protected, or has not expired")
            if state.layers and not discard_staged:
                raise DirtyBranchError.of_deletion(name)
            branch_rows.drop_layers(connection, self._uid, name)
            connection.execute(
                "DELETE FROM sparklake.branches WHERE repository_uid = %s AND name = %s",
                (self._uid, name),
            )
            verb = RefVerb.PRUNE_BRANCH if if_expired else RefVerb.DELETE_BRANCH
            commits.log_and_commit(connection, self._uid, who, verb.value, name, old=head)

    def rename(
        self, name: str, new_name: str, who: str, *, once: OnceRecord | None = None
    ) -> BranchState:
        scope, uid = self._scope, self._uid
        with self._connections.transaction() as connection:
            add_once_record(connection, uid, once)
            settings = lock_settings(connection, scope)
            commits.claim_name(connection, uid, new_name, "tag")()
            head = branch_rows.lock_branch(connection, scope, name, Action.DELETE)()
            moved = settings.with_renamed_branch(name, new_name)
            guard = moved.guard(new_name)
            values = {
                "uid": uid,
                "name": name,
                "new_name": new_name,
                "read_only": guard.read_only,
                "protected": sorted(guard.protected),
            }
            if not connection.execute(_COPY, values).rowcount:
                raise AlreadyExistsError(f"the branch {new_name!r} already exists: choose another")
            # Sealed layers make later writers read the branch, with its guard.
            connection.execute(
                "UPDATE sparklake.layers SET branch = %(new_name)s, sealed = true"
                " WHERE repository_uid = %(uid)s AND branch = %(name)s",
                values,
            )
            connection.execute(
                "DELETE FROM sparklake.branches WHERE repository_uid = %(uid)s AND name = %(name)s",
                values,
            )
            if moved != settings:
                set_settings(connection, uid, moved)
            state = locked_state(connection, scope, new_name)()
            verb = RefVerb.RENAME_BRANCH.value
            commits.log_operation(connection, uid, who, verb, name, old=head)
            commits.log_and_commit(connection, uid, who, verb, new_name, new=head)
            return state

    def set_lifetime(self, name: str, lifetime: timedelta | None) -> BranchState:
        with self._connections.transaction() as connection:
            branch_rows.lock_branch(connection, self._scope, name)()
            connection.execute(
                "UPDATE sparklake.branches SET expires = clock_timestamp() + %s::interval"
                " WHERE repository_uid = %s AND name = %s",
                (lifetime, self._uid, name),
            )
            return locked_state(connection, self._scope, name)()

    def move(self, move: BranchMove) -> None:
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, move.once)
            try:
                with connection.batch():
                    insertions = self._insert_commits(connection, move)
                    swap = self._swap(connection, move)
                    is_latest = self._is_latest(connection, move)
                    layers = branch_rows.layers_of(connection, self._uid, move.branch)
                    removal = self._take_layers(connection, move)
            except psycopg.errors.ForeignKeyViolation as error:
                if error.diag.table_name != "branches":
                    raise
                raise RefNotFoundError(f"there is no commit {move.to!r}") from None
            if not swap():
                raise self._missed(connection, move)
            if not is_latest():
                raise RaceLostError(f"branch {move.branch!r} has moved, and moved back")
            if move.runs is not None and not _runs(layers()) <= move.runs:
                raise RaceLostError.of_new_run(move.branch)
            if not removal():
                raise RaceLostError(
                    f"another writer has committed or dropped staged changes of {move.branch!r}"
                )
            with connection.batch(commit=True):
                existing = [commit_id for commit_id, is_new in insertions.items() if not is_new()]
                if existing:
                    # A commit that was made again after the fence refers to no deleted object.
                    commits.renew_commits(connection, self._uid, existing)
                if move.to != move.expected:
                    who, verb, heads = move.who, move.verb, {"old": move.expected, "new": move.to}
                    commits.log_operation(connection, self._uid, who, verb, move.branch, **heads)

    def _insert_commits(
        self, connection: Session, move: BranchMove
    ) -> dict[CommitId, Answer[bool]]:
        return {
            each.id: commits.insert_commit(
                connection, self._uid, each, move.change_summaries.get(each.id)
            )
            for each in move.commits
        }

    def _swap(self, connection: Session, move: BranchMove) -> Answer[bool]:
        cursor = connection.execute(
            _SWAP,
            {
                "uid": self._uid,
                "force": self._scope.force,
                "commit": move.to,
                "is_new": _is_new(move),
                "branch": move.branch,
                "expected": move.expected,
                "actions": [each.value for each in actions_of(move.verb)],
                "fence": move.fence,
            },
        )
        return lambda: cursor.rowcount > 0

    def _missed(self, connection: Session, move: BranchMove) -> RaceLostError:
        """Return the reason why a branch was not moved, or raise a more precise error."""
        # No lock: the transaction may hold layers, which come after the branch.
        head = branch_rows.read_branch(
            connection, self._scope, move.branch, *actions_of(move.verb), fence=move.fence
        )()
        if head == move.expected and not _is_new(move):
            commits.check_not_expired(connection, self._uid, move.to)
        return RaceLostError(f"branch {move.branch!r} has moved to {head}")

    def _is_latest(self, connection: Session, move: BranchMove) -> Answer[bool]:
        if move.latest is None:
            return lambda: True
        cursor = connection.execute(
            "SELECT max(sequence) FROM sparklake.operations"
            " WHERE repository_uid = %(uid)s AND ref = %(ref)s",
            {"uid": self._uid, "ref": move.branch},
        )
        return lambda: cursor.fetchone() == (move.latest,)

    def _take_layers(self, connection: Session, move: BranchMove) -> Answer[bool]:
        """Remove the layers applied by a move; answer whether all existed."""
        uid, branch, applied, cut = self._uid, move.branch, move.applied_layers, move.cut
        if cut is None:
            return branch_rows.drop_sealed_layers(connection, uid, branch, applied)
        return lambda: branch_rows.cut_layers(connection, uid, branch, set(applied), cut)

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        with leased(self._connections, self._turn(name), seconds):
            yield

    def is_turn_held(self, name: str) -> bool:
        return is_leased(self._connections, self._turn(name))

    def _turn(self, name: str) -> str:
        return f"{self._uid}/{name}"


def _is_new(move: BranchMove) -> bool:
    return any(each.id == move.to for each in move.commits)


def _runs(layers: Sequence[Layer]) -> frozenset[int]:
    return frozenset(each.id for each in layers if each.kind is LayerKind.RUN)
