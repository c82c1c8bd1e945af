"""Staged records and table writes of one repository, in Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from sparklake.errors import (
    AlreadyExistsError,
    RaceLostError,
    RepositoryNotFoundError,
    WriteFinishedError,
)
from sparklake.graveler.guards import Action
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.keys import disjoint_prefixes, prefix_end
from sparklake.graveler.ports import BranchState, Layer, LayerCut, LayerKind, Write, WriteState
from sparklake.graveler.ports.once import OnceRecord
from sparklake.graveler.records import MAX_KEY_BYTES, Record
from sparklake.stores.postgres import branch_rows
from sparklake.stores.postgres.branches import locked_state
from sparklake.stores.postgres.copied_rows import CopiedRows
from sparklake.stores.postgres.once import add_once_record
from sparklake.stores.postgres.sessions import Answer, Session

_COLUMNS = "id, place, branch, who, floor(extract(epoch FROM started_at))::bigint, state"


class PostgresWrites(branch_rows.RepositoryPart):
    def begin(self, write_id: str, place: str, branch: str, who: str) -> Write:
        values = {"uid": self._uid, "id": write_id, "place": place, "branch": branch, "who": who}
        with self._connections.transaction() as connection:
            # Locked, so that a repository in deletion gets no new writes.
            match = connection.execute(
                "SELECT 1 FROM sparklake.repositories WHERE uid = %(uid)s FOR KEY SHARE", values
            ).fetchone()
            if match is None:
                raise RepositoryNotFoundError("the repository was deleted")
            row = connection.execute(
                f"""
                INSERT INTO sparklake.writes (repository_uid, id, place, branch, who)
                VALUES (%(uid)s, %(id)s, %(place)s, %(branch)s, %(who)s)
                ON CONFLICT DO NOTHING RETURNING {_COLUMNS}
                """,  # noqa: S608  (columns, no values)
                values,
            ).fetchone()
        if row is None:
            raise AlreadyExistsError(f"the write {write_id!r} already exists")
        return _write(row)

    def find(self, write_id: str) -> Write | None:
        rows = self._fetch(
            f"SELECT {_COLUMNS} FROM sparklake.writes"  # noqa: S608
            " WHERE repository_uid = %(uid)s AND id = %(id)s",
            id=write_id,
        )
        return _write(rows[0]) if rows else None

    def abandon(self, write_ids: Sequence[str]) -> Sequence[Write]:
        with self._connections.transaction() as connection:
            # In the order of ids: two callers cannot deadlock.
            rows = connection.execute(
                f"""
                WITH ending AS (
                    SELECT id FROM sparklake.writes
                    WHERE repository_uid = %(uid)s AND id = ANY(%(ids)s::text[]) AND state = 'open'
                    ORDER BY id FOR UPDATE
                )
                UPDATE sparklake.writes SET state = 'abandoned'
                WHERE repository_uid = %(uid)s AND id IN (SELECT id FROM ending)
                RETURNING {_COLUMNS}
                """,  # noqa: S608
                {"uid": self._uid, "ids": list(write_ids)},
            ).fetchall()
        return sorted(map(_write, rows), key=lambda each: (each.started_at, each.id))

    def list(self) -> Sequence[Write]:
        rows = self._fetch(
            f"SELECT {_COLUMNS} FROM sparklake.writes"  # noqa: S608
            " WHERE repository_uid = %(uid)s AND state <> 'done' ORDER BY started_at, id"
        )
        return [_write(row) for row in rows]


def end_write(connection: Session, uid: str, branch: str, write_id: str) -> None:
    ended = connection.execute(
        "UPDATE sparklake.writes SET state = 'done'"
        " WHERE repository_uid = %s AND id = %s AND branch = %s AND state = 'open'",
        (uid, write_id, branch),
    ).rowcount
    if not ended:
        raise WriteFinishedError.of(write_id, branch)


def _write(row: tuple[Any, ...]) -> Write:
    write_id, place, branch, who, started_at, state = row
    return Write(write_id, place, branch, who, started_at, WriteState(state))


_PUT_ROWS = 5_000  # At most 66 kB a record: far below the 1 GB that one parameter may have.
_FETCH_ROWS = 5_000
_FIRST = 1000
"""The maximum number of rows of a layer that are read by one statement, without a transaction."""
_AFTER_ALL = b"\xff" * (MAX_KEY_BYTES + 1)
# The intervals come in order, and the rows of each one in order: a stream that nothing sorts.
_ROWS = """
    SELECT found.key, found.value
    FROM unnest(%(first)b::bytea[], %(after)b::bytea[]) AS within (first, after)
    CROSS JOIN LATERAL (
        SELECT key, value FROM sparklake.staged_rows
        WHERE layer_id = %(layer)s AND key >= within.first AND key < within.after
        ORDER BY key
    ) AS found
"""
_FIRST_ROWS = f"""
    SELECT first.key, first.value FROM sparklake.layers l
    LEFT JOIN LATERAL ({_ROWS} LIMIT %(limit)s) AS first ON true
    WHERE l.repository_uid = %(uid)s AND l.id = %(layer)s
"""  # noqa: S608  (a query, no values)
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresStaging(branch_rows.RepositoryPart):
    def put(
        self,
        branch: str,
        records: Sequence[Record],
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> None:
        rows = sorted(dict(records).items())  # Key order: two writers cannot deadlock.
        scope, action = self._scope, Action.STAGE
        values = {
            "uid": self._uid,
            "branch": branch,
            "force": scope.force,
            "actions": [action.value],
            "fence": fence,
        }
        # A record locks the repository, which must be locked before a layer.
        if once is None:
            with self._connections.transaction() as connection, connection.batch(commit=True):
                is_staged = _put_into_open_layer(connection, values, rows)
            if is_staged():
                return
        # A new transaction: the first one may have locked a layer, and the branch must be
        # locked first.
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, once)
            with connection.batch(commit=once is None):
                lock = branch_rows.lock_branch(connection, scope, branch, action, fence=fence)
                if rows:
                    connection.execute(_OPEN_LAYER, values)
                is_staged = _put_into_open_layer(connection, values, rows)
            lock()
            if rows and not is_staged():
                raise RaceLostError(f"nothing was staged: {branch!r} has changed. Try again")

    def add_run(
        self,
        branch: str,
        meta_range_id: MetaRangeId,
        expected: BranchState | None = None,
        write: str | None = None,
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> Layer:
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, once)
            head = branch_rows.lock_branch(
                connection, self._scope, branch, Action.STAGE, fence=fence
            )()
            if expected is not None:
                _check_content(connection, self._uid, head, expected)
            if write is not None:
                end_write(connection, self._uid, branch, write)
            branch_rows.seal_layers(connection, self._uid, branch)
            layer_id = branch_rows.insert_run(connection, self._uid, branch, meta_range_id)
        return Layer(layer_id, LayerKind.RUN, sealed=True, meta_range_id=meta_range_id)

    def seal(self, branch: str, action: Action | None = None) -> BranchState:
        with self._connections.transaction() as connection, connection.batch(commit=True):
            lock = branch_rows.lock_branch(connection, self._scope, branch, action)
            actions = [action] if action else []
            branch_rows.seal_layers_if_permitted(connection, self._scope, branch, *actions)
            state = locked_state(connection, self._scope, branch)
        lock()
        return state()

    def rows(self, layer_id: int, *prefixes: bytes) -> Iterator[Record]:
        first = self._fetch(_FIRST_ROWS, **_rows_of(layer_id, prefixes), limit=_FIRST + 1)
        if not first:
            raise _gone(layer_id)
        if len(first) <= _FIRST:
            yield from (row for row in first if row[0] is not None)
            return
        # The reader may need the only connection of a pool, and must not wait for itself.
        copy = CopiedRows()
        with self._connections.transaction(_SNAPSHOT) as connection:
            copy.add(layer_id, layer_rows(connection, self._uid, layer_id, *prefixes))
        yield from copy.read(layer_id)

    def row(self, layer_id: int, key: bytes) -> Record | None:
        rows = self._fetch(
            """
            SELECT r.key, r.value FROM sparklake.layers l
            LEFT JOIN sparklake.staged_rows r ON r.layer_id = l.id AND r.key = %(key)s
            WHERE l.repository_uid = %(uid)s AND l.id = %(layer)s
            """,
            layer=layer_id,
            key=key,
        )
        if not rows:
            raise _gone(layer_id)
        found_key, value = rows[0]
        return None if found_key is None else (found_key, value)

    def count(self, layer_id: int) -> int:
        rows = self._fetch(
            """
            SELECT (SELECT count(*) FROM sparklake.staged_rows r WHERE r.layer_id = l.id)
            FROM sparklake.layers l WHERE l.repository_uid = %(uid)s AND l.id = %(layer)s
            """,
            layer=layer_id,
        )
        if not rows:
            raise _gone(layer_id)
        return int(rows[0][0])

    def reset(self, branch: str, *, once: OnceRecord | None = None) -> None:
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, once)
            branch_rows.lock_branch(connection, self._scope, branch, Action.RESET)()
            branch_rows.drop_layers(connection, self._uid, branch)

    def drop(
        self,
        branch: str,
        expected: BranchState,
        cut: LayerCut,
        run: MetaRangeId | None = None,
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> None:
        with self._connections.transaction() as connection:
            add_once_record(connection, self._uid, once)
            action = Action.STAGE if run else Action.RESET
            head = branch_rows.lock_branch(connection, self._scope, branch, action, fence=fence)()
            _check_content(connection, self._uid, head, expected)
            branch_rows.cut_layers(
                connection, self._uid, branch, {each.id for each in expected.layers}, cut
            )
            if run:
                branch_rows.insert_run(connection, self._uid, branch, run)


def layer_rows(connection: Session, uid: str, layer_id: int, *prefixes: bytes) -> Iterator[Record]:
    """Stream the records of a rows layer in key order, within a snapshot transaction."""
    if not connection.execute(
        "SELECT 1 FROM sparklake.layers WHERE repository_uid = %s AND id = %s", (uid, layer_id)
    ).fetchall():
        raise _gone(layer_id)
    with connection.cursor(f"rows_{uuid4().hex}", binary=True) as cursor:
        cursor.itersize = _FETCH_ROWS
        yield from cursor.execute(_ROWS, _rows_of(layer_id, prefixes))


def _rows_of(layer_id: int, prefixes: Sequence[bytes]) -> dict[str, object]:
    apart = disjoint_prefixes(prefixes or [b""])
    afters = [prefix_end(each) or _AFTER_ALL for each in apart]
    return {"layer": layer_id, "first": apart, "after": afters}


def _check_content(connection: Session, uid: str, head: CommitId, expected: BranchState) -> None:
    """Verify that a locked branch is unchanged since it was read."""
    if (head, branch_rows.layers_of(connection, uid, expected.name)()) != expected.content:
        raise RaceLostError(f"branch {expected.name!r} has changed: read it again")


# An open layer is held open until the transaction ends. A change of guard or fence seals the layers
# afterwards, so an open layer means that the guard and the fence read here still apply.
_PUT = f"""
    WITH held AS (
        SELECT l.id FROM sparklake.layers l
        JOIN sparklake.branches b ON b.repository_uid = l.repository_uid AND b.name = l.branch
        WHERE l.repository_uid = %(uid)s AND l.branch = %(branch)s AND NOT l.sealed
            AND {branch_rows.PERMITS} AND b.fence = coalesce(%(fence)s::bigint, b.fence)
        FOR SHARE OF l
    ), staged AS (
        INSERT INTO sparklake.staged_rows (layer_id, key, value)
        SELECT held.id, row.key, row.value
        FROM held CROSS JOIN unnest(%(keys)b::bytea[], %(values)b::bytea[]) AS row (key, value)
        ON CONFLICT (layer_id, key) DO UPDATE SET value = excluded.value
    )
    SELECT 1 FROM held
"""  # noqa: S608  (a condition, no values)
_OPEN_LAYER = f"""
    INSERT INTO sparklake.layers (repository_uid, branch, kind, sealed)
    SELECT repository_uid, name, 'rows', false FROM sparklake.branches
    WHERE repository_uid = %(uid)s AND name = %(branch)s AND {branch_rows.PERMITS}
        AND fence = coalesce(%(fence)s::bigint, fence)
    ON CONFLICT DO NOTHING
"""  # noqa: S608  (a condition, no values)


def _put_into_open_layer(
    connection: Session, values: Mapping[str, object], rows: Sequence[Record]
) -> Answer[bool]:
    """Stage rows; answer whether there is an open layer, and guard and fence permit it."""
    cursors = []
    for start in range(0, max(len(rows), 1), _PUT_ROWS):
        part = rows[start : start + _PUT_ROWS]
        columns = {"keys": [key for key, _ in part], "values": [value for _, value in part]}
        cursors.append(connection.execute(_PUT, {**values, **columns}))
    return lambda: all(cursor.rowcount for cursor in cursors)


def _gone(layer_id: int) -> RaceLostError:
    return RaceLostError(f"staging layer {layer_id} no longer exists: read the branch again")
