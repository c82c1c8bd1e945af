"""A trigger that waits for commits in Airflow's triggerer, without a worker slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from sparklake.airflow.changes import change
from sparklake.airflow.hook import LakePlace, SparklakeHook
from sparklake.errors import RefStoreUnavailableError, SparklakeError


class CommitTrigger(BaseTrigger):
    """Fires when a branch moves or a path changes. Its arguments contain no secrets."""

    def __init__(
        self,
        uri: str,
        since: str,
        metadata: Mapping[str, str],
        sparklake_conn_id: str | None,
        poke_interval: float,
    ) -> None:
        super().__init__()
        self.arguments: dict[str, Any] = {
            "uri": uri,
            "since": since,
            "metadata": dict(metadata),
            "sparklake_conn_id": sparklake_conn_id,
            "poke_interval": poke_interval,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments, for Airflow's database."""
        return f"{CommitTrigger.__module__}.{CommitTrigger.__name__}", self.arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the head, or the error and its exit code."""
        try:
            head = await self._wait()
        except SparklakeError as error:
            yield TriggerEvent({"error": str(error), "code": error.exit_code})
        else:
            yield TriggerEvent({"head": head})

    async def _wait(self) -> str:
        hook = SparklakeHook(self.arguments["sparklake_conn_id"])
        # Airflow's own calls must run in its thread. The lake must not block it.
        place = await sync_to_async(lambda: hook.place)()
        while True:
            try:
                head, has_changed = await asyncio.to_thread(self._look, place)
            except RefStoreUnavailableError as error:
                self.log.warning("the lake is unavailable: %s", error)
            else:
                if has_changed:
                    return head
            await asyncio.sleep(self.arguments["poke_interval"])

    def _look(self, place: LakePlace) -> tuple[str, bool]:
        own = self.arguments
        with place.open() as lake:
            return change(lake, own["uri"], own["since"], own["metadata"])
