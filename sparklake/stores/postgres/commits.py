"""Commits and the operations log of one repository, in Postgres."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, Literal

from psycopg.types.json import Jsonb

from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import Operation
from sparklake.graveler.refs.names import name_taken
from sparklake.graveler.retention import expired_error
from sparklake.stores.postgres.branch_rows import TREE_SWEEPS, RepositoryPart
from sparklake.stores.postgres.sessions import Answer, Session

BULK_COMMITS = 1000
"""The fewest commits of a bulk load. The statistics of fewer are left to autovacuum."""

COLUMNS = """
    c.id, c.parents, c.committer, c.message, c.creation_date, c.meta_range_id, c.metadata,
    c.generation
"""
_SELECT = f"""
    SELECT {COLUMNS}, {TREE_SWEEPS}
    FROM sparklake.commits c
"""  # noqa: S608  (an expression, no values)

_INSERT = """
    INSERT INTO sparklake.commits
        (repository_uid, id, parents, committer, message, creation_date, meta_range_id, metadata,
         generation, touched)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""

_RESTORE = _INSERT.replace(
    "DO NOTHING",
    """(repository_uid, id) DO UPDATE SET
        parents = excluded.parents, committer = excluded.committer, message = excluded.message,
        creation_date = excluded.creation_date, meta_range_id = excluded.meta_range_id,
        metadata = excluded.metadata, generation = excluded.generation,
        touched = excluded.touched""",
)

IS_KEPT = """NOT EXISTS (SELECT 1 FROM sparklake.expired_commits
    WHERE repository_uid = %(uid)s AND commit_id = %(commit)s)"""
"""The condition of setting a ref to a commit, under a lock that fences wait for."""

# A walk by levels that visits each commit once. UNION drops a row equal to an earlier one, so the
# distance must not be part of equality, or a commit would be visited once per distance. An interval
# of n days less 24n hours achieves this: all such intervals are equal, because a day is 24 hours,
# but each stores its n. `before` counts the commits of the previous levels in the same way, so the
# walk ends at the level that fills the limit.
_WALK = """
    WITH RECURSIVE walk (id, distance, before) AS (
        SELECT given COLLATE "C", interval '0', interval '0'
        FROM unnest(%(ids)s::text[]) AS given
      UNION
        SELECT parent COLLATE "C",
               make_interval(days => distance + 1, hours => -24 * (distance + 1)),
               make_interval(days => before + width, hours => -24 * (before + width))
        FROM (
            SELECT found.parents,
                   extract(day FROM walk.distance)::int AS distance,
                   extract(day FROM walk.before)::int AS before,
                   (count(*) OVER ())::int AS width
            FROM walk CROSS JOIN LATERAL (
                -- OFFSET 0 keeps this a look-up by id, whatever the planner thinks of the walk.
                SELECT c.parents FROM sparklake.commits c
                WHERE c.repository_uid = %(uid)s AND c.id = walk.id OFFSET 0
            ) AS found
        ) AS level CROSS JOIN unnest(level.parents) AS parent
        WHERE before + width < %(limit)s
    )
"""
_ANCESTRY = f"""{_WALK}{_SELECT}
    JOIN walk ON walk.id = c.id
    WHERE c.repository_uid = %(uid)s
    ORDER BY extract(day FROM walk.distance), c.id LIMIT %(limit)s
"""

# A look-up by id for each commit, as in _WALK.
_BAND = """
    WITH RECURSIVE walk (id) AS (
        SELECT given COLLATE "C" FROM unnest(%(ids)s::text[]) AS given
      UNION
        SELECT parent COLLATE "C"
        FROM walk CROSS JOIN LATERAL (
            SELECT c.parents FROM sparklake.commits c
            WHERE c.repository_uid = %(uid)s AND c.id = walk.id AND c.generation >= %(least)s
            OFFSET 0
        ) AS found CROSS JOIN unnest(found.parents) AS parent
    )
"""
_ANCESTRY_DOWN_TO = f"""{_BAND}{_SELECT}
    JOIN walk ON walk.id = c.id
    WHERE c.repository_uid = %(uid)s
"""

# A look-up by id for each step, as in _WALK.
_LINE = """
    WITH RECURSIVE line (id, step) AS (
        SELECT %(id)s::text COLLATE "C", 0
      UNION ALL
        SELECT found.parents[1] COLLATE "C", line.step + 1
        FROM line CROSS JOIN LATERAL (
            SELECT c.parents FROM sparklake.commits c
            WHERE c.repository_uid = %(uid)s AND c.id = line.id OFFSET 0
        ) AS found
        WHERE line.step < %(steps)s AND cardinality(found.parents) > 0
    )
"""
_FIRST_ANCESTOR = f"""{_LINE}{_SELECT}
    JOIN line ON line.id = c.id AND line.step = %(steps)s
    WHERE c.repository_uid = %(uid)s
"""


class PostgresCommits(RepositoryPart):
    def find(self, commit_id: CommitId) -> Commit | None:
        rows = self._fetch(
            _SELECT + " WHERE c.repository_uid = %(uid)s AND c.id = %(id)s", id=commit_id
        )
        return next(iter(self._commits(rows)), None)

    def find_by_prefix(self, prefix: str, limit: int = 2) -> Sequence[Commit]:
        rows = self._fetch(
            _SELECT
            + """
            WHERE c.repository_uid = %(uid)s
                AND c.id >= %(prefix)s AND c.id < %(prefix)s || 'g'  -- ids are hex digits
            ORDER BY c.id LIMIT %(limit)s
            """,
            prefix=prefix,
            limit=limit,
        )
        return self._commits(rows)

    def ancestry(self, commit_ids: Sequence[CommitId], limit: int) -> Sequence[Commit]:
        rows = self._fetch(_ANCESTRY, ids=list(commit_ids), limit=limit)
        return self._commits(rows)

    def ancestry_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        rows = self._fetch(_ANCESTRY_DOWN_TO, ids=list(commit_ids), least=least)
        return self._commits(rows)

    def change_summaries(self, commit_ids: Sequence[CommitId]) -> Mapping[CommitId, bytes]:
        rows = self._fetch(
            "SELECT id, touched FROM sparklake.commits WHERE repository_uid = %(uid)s"
            " AND id = ANY(%(ids)s) AND touched IS NOT NULL",
            ids=list(commit_ids),
        )
        return dict(rows)

    def expired(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        return {commit_id for commit_id, _ in self._expired(commit_ids)}

    def collected(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        return {commit_id for commit_id, is_collected in self._expired(commit_ids) if is_collected}

    def _expired(self, commit_ids: Sequence[CommitId]) -> Sequence[tuple[CommitId, bool]]:
        """Return the expired commits among the given ones, and whether they have no tree."""
        return self._fetch(
            "SELECT commit_id, tree_collected FROM sparklake.expired_commits"
            " WHERE repository_uid = %(uid)s AND commit_id = ANY(%(ids)s)",
            ids=list(commit_ids),
        )

    def restore(self, commits: Sequence[Commit]) -> None:
        with self._connections.transaction() as connection:
            rows = [_row(self._uid, each) for each in commits]
            connection.cursor().executemany(_RESTORE, rows)

    def first_ancestor(self, commit_id: CommitId, steps: int) -> Commit | None:
        rows = self._fetch(_FIRST_ANCESTOR, id=commit_id, steps=steps)
        return next(iter(self._commits(rows)), None)

    def _commits(self, rows: Sequence[tuple[Any, ...]]) -> Sequence[Commit]:
        """Return the commits in rows, and record their number of tree sweeps."""
        if rows:
            self._scope.sweeps.see(rows[0][-1])
        return [commit_of(*row[:-1]) for row in rows]


def all_commits(connection: Session, uid: str) -> Sequence[Commit]:
    """Return all commits by generation and id, within a transaction."""
    query = _SELECT + " WHERE c.repository_uid = %(uid)s ORDER BY c.generation, c.id"
    return [commit_of(*row[:-1]) for row in connection.execute(query, {"uid": uid})]


def insert_commit(
    connection: Session, uid: str, commit: Commit, touched: bytes | None
) -> Answer[bool]:
    """Add a commit in the transaction of the branch move; answer whether it is new."""
    cursor = connection.execute(_INSERT, _row(uid, commit, touched))
    return lambda: cursor.rowcount > 0


def mark_expired(connection: Session, uid: str, commit_ids: Sequence[CommitId], now: int) -> None:
    if commit_ids:
        connection.execute(
            "INSERT INTO sparklake.expired_commits (repository_uid, commit_id, expired_at)"
            " SELECT %s, id, %s FROM unnest(%s::text[]) AS id ON CONFLICT DO NOTHING",
            (uid, now, list(commit_ids)),
        )


def mark_collected(connection: Session, uid: str, commit_ids: Sequence[CommitId]) -> None:
    if commit_ids:
        connection.execute(
            "UPDATE sparklake.expired_commits SET tree_collected = true"
            " WHERE repository_uid = %s AND commit_id = ANY(%s)",
            (uid, list(commit_ids)),
        )


def check_not_expired(connection: Session, uid: str, commit_id: CommitId) -> None:
    query = f"SELECT {IS_KEPT}"
    row = connection.execute(query, {"uid": uid, "commit": commit_id}).fetchone()
    if row is not None and not row[0]:
        raise expired_error(commit_id)


def claim_name(
    connection: Session, uid: str, name: str, other: Literal["branch", "tag"]
) -> Answer[None]:
    """Reserve a name for one kind of ref until the transaction ends, unless it is taken."""
    connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{uid} ref {name}",)
    )
    others = {
        "branch": "SELECT 1 FROM sparklake.branches WHERE repository_uid = %s AND name = %s",
        "tag": "SELECT 1 FROM sparklake.tags WHERE repository_uid = %s AND name = %s",
    }
    cursor = connection.execute(others[other], (uid, name))

    def check() -> None:
        if cursor.fetchone() is not None:
            raise name_taken(other, name)

    return check


def renew_commits(connection: Session, uid: str, commit_ids: Sequence[CommitId]) -> None:
    connection.execute(
        "DELETE FROM sparklake.expired_commits WHERE repository_uid = %s AND commit_id = ANY(%s)",
        (uid, list(commit_ids)),
    )


def insert_commits(connection: Session, uid: str, commits: Sequence[Commit]) -> None:
    """Add many commits at once; update the planner's statistics after a bulk load."""
    connection.cursor().executemany(_INSERT, [_row(uid, each) for each in commits])
    if len(commits) >= BULK_COMMITS:
        # SKIP_LOCKED: a vacuum that holds the table updates the statistics itself.
        connection.execute("ANALYZE (SKIP_LOCKED) sparklake.commits")


def _row(uid: str, commit: Commit, touched: bytes | None = None) -> tuple[Any, ...]:
    return (
        uid,
        commit.id,
        list(commit.parents),
        commit.committer,
        commit.message,
        commit.creation_date,
        commit.meta_range_id,
        Jsonb(dict(commit.metadata)),
        commit.generation,
        touched,
    )


def commit_of(
    identity: CommitId,
    parents: Sequence[CommitId],
    committer: str,
    message: str,
    creation_date: int,
    meta_range_id: MetaRangeId,
    metadata: Mapping[str, str],
    generation: int,
) -> Commit:
    return Commit(
        id=identity,
        parents=tuple(parents),
        committer=committer,
        message=message,
        creation_date=creation_date,
        meta_range_id=meta_range_id,
        metadata=dict(sorted(metadata.items())),
        generation=generation,
    )


def log_operation(
    connection: Session,
    uid: str,
    who: str,
    verb: str,
    ref: str,
    *,
    old: CommitId | None = None,
    new: CommitId | None = None,
) -> None:
    """Add an entry to the log, within the transaction of the move."""
    connection.execute(
        "INSERT INTO sparklake.operations (repository_uid, who, verb, ref, from_commit, to_commit)"
        " VALUES (%s, %s, %s, %s, %s, %s)",
        (uid, who, verb, ref, old, new),
    )


def log_and_commit(
    connection: Session, uid: str, who: str, verb: str, ref: str, **heads: CommitId
) -> None:
    """Add the last statement of a transaction, and commit it. `heads` are `old` and `new`."""
    with connection.batch(commit=True):
        log_operation(connection, uid, who, verb, ref, **heads)


_OPERATION = """
    sequence, floor(extract(epoch FROM date))::bigint, who, verb, ref, from_commit, to_commit,
    mod(floor(extract(epoch FROM date) * 1000000), 1000000)::int
"""

_LATEST = f"""
    SELECT DISTINCT ON (ref) {_OPERATION} FROM sparklake.operations
    WHERE repository_uid = %(uid)s ORDER BY ref, sequence DESC
"""  # noqa: S608  (an expression, no values)

_LATEST_OF = f"""
    SELECT o.* FROM unnest(%(refs)s::text[]) AS wanted (name) CROSS JOIN LATERAL (
        SELECT {_OPERATION} FROM sparklake.operations
        WHERE repository_uid = %(uid)s AND ref = wanted.name ORDER BY sequence DESC LIMIT 1
    ) o
"""  # noqa: S608  (an expression, no values)


class PostgresOperations(RepositoryPart):
    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        rows = self._fetch(
            f"""
            SELECT {_OPERATION} FROM sparklake.operations WHERE repository_uid = %(uid)s
                AND (%(ref)s::text IS NULL OR ref = %(ref)s)
            ORDER BY sequence DESC LIMIT %(limit)s
            """,  # noqa: S608
            ref=ref,
            limit=limit,
        )
        return [Operation(*row) for row in rows]

    def find(self, sequence: int) -> Operation | None:
        return self._one("AND sequence = %(sequence)s", sequence)

    def first(self) -> Operation | None:
        return self._one("ORDER BY sequence LIMIT 1")

    def _one(self, condition: str, sequence: int = 0) -> Operation | None:
        rows = self._fetch(
            f"SELECT {_OPERATION} FROM sparklake.operations"  # noqa: S608
            f" WHERE repository_uid = %(uid)s {condition}",
            sequence=sequence,
        )
        return Operation(*rows[0]) if rows else None

    def latest(self, refs: Collection[str] | None = None) -> Mapping[str, Operation]:
        rows = self._fetch(_LATEST if refs is None else _LATEST_OF, refs=list(refs or ()))
        entries = [Operation(*row) for row in rows]
        return {each.ref: each for each in entries}

    def reached(self, commits: Mapping[str, CommitId], after: Operation | None = None) -> Set[str]:
        rows = self._fetch(
            """
            SELECT DISTINCT o.ref FROM sparklake.operations o
            JOIN unnest(%(refs)s::text[], %(commits)s::text[]) AS w (ref, commit_id)
                ON o.ref = w.ref AND w.commit_id IN (o.from_commit, o.to_commit)
            WHERE o.repository_uid = %(uid)s
                AND floor(extract(epoch FROM o.date) * 1000000) > %(after)s
            """,
            refs=list(commits),
            commits=list(commits.values()),
            after=after.date * 1_000_000 + after.microseconds if after else 0,
        )
        return {ref for (ref,) in rows}
