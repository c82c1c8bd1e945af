"""The operations log of one repository, in Postgres."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import Operation
from sparklake.stores.postgres.branch_rows import RepositoryPart

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
