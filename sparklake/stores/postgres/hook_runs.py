"""The runs of hooks of one repository, in Postgres."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from sparklake.graveler.ports.registers import HookResult, HookRun, HookStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparklake.stores.postgres.connections import Connections

_SELECT = """
    SELECT id, event, ref, commit_id, who, date, status, hooks
    FROM sparklake.hook_runs WHERE repository_uid = %(uid)s
"""


class PostgresHookRuns:
    """Holds the runs of hooks of one repository."""

    def __init__(self, connections: Connections, uid: str) -> None:
        self._connections = connections
        self._uid = uid

    def add(self, run: HookRun) -> None:
        """Keeps a run."""
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

    def find(self, run_id: str) -> HookRun | None:
        """Returns a run."""
        rows = self._connections.fetch(
            _SELECT + " AND id = %(id)s", {"uid": self._uid, "id": run_id}
        )
        return _run(*rows[0]) if rows else None

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Returns the latest runs, newest first; of one branch or tag, or of all."""
        rows = self._connections.fetch(
            _SELECT + " AND (%(ref)s::text IS NULL OR ref = %(ref)s)"
            " ORDER BY sequence DESC LIMIT %(limit)s",
            {"uid": self._uid, "ref": ref, "limit": limit},
        )
        return [_run(*row) for row in rows]


def _run(*row: Any) -> HookRun:
    run_id, event, ref, commit_id, who, date, status, hooks = row
    results = (HookResult(**{**each, "status": HookStatus(each["status"])}) for each in hooks)
    return HookRun(run_id, event, ref, commit_id, who, date, HookStatus(status), tuple(results))
