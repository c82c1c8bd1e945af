"""A sensor for commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.configuration import conf

from sparklake.airflow.changes import change
from sparklake.airflow.failures import failing, failure
from sparklake.airflow.hook import SparklakeHook
from sparklake.airflow.names import DEFAULT_CONNECTION
from sparklake.airflow.triggers import CommitTrigger
from sparklake.airflow.versions import BaseSensorOperator, PokeReturnValue

_NAME = "commit sensor"

LAST_SEEN = (
    "{{ ti.xcom_pull(task_ids=ti.task_id, key='return_value', include_prior_dates=True,"
    " map_indexes=ti.map_index) or '' }}"
)
"""The commit that this sensor returned in its previous run, or nothing.

Without `map_indexes`, Airflow returns those of all previous runs.
"""


class CommitSensor(BaseSensorOperator):
    """Wait until a branch moves or a path changes; return the head as XCom.

    Staged changes do not count. Use `deferrable=True` for long waits, or `mode="reschedule"`
    without a triggerer: the sensor keeps no state.

    Args:
        uri: `lakefs://REPO/BRANCH`, or `lakefs://REPO/BRANCH/PATH` for an object, or for all
            below `PATH/` (templated).
        since: The id of the commit to compare with (templated). By default, the commit that this
            task returned in its previous run. Without one, the sensor returns the head immediately.
        metadata: Wait for a commit since then with all of this metadata (templated), which changes
            the path if there is one.
        deferrable: Wait in the triggerer instead of a worker. The triggerer needs sparklake, and
            access to the lake's Postgres and store.
        sparklake_conn_id: The connection of the lake; None uses the worker's environment, or that
            of the triggerer.
    """

    template_fields: Sequence[str] = ("uri", "since", "metadata", "sparklake_conn_id")
    ui_color = "#d7e8f7"

    def __init__(
        self,
        *,
        uri: str,
        since: str = LAST_SEEN,
        metadata: Mapping[str, str] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        sparklake_conn_id: str | None = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.uri = uri
        self.since = since
        self.metadata = dict(metadata or {})
        self.deferrable = deferrable
        self.sparklake_conn_id = sparklake_conn_id

    def execute(self, context: Any) -> Any:
        """Wait; return the id of the head. Raises AirflowException, AirflowFailException."""
        if not self.deferrable:
            return super().execute(context)
        result = self.poke(context)
        if result.is_done:
            return result.xcom_value
        trigger = CommitTrigger(
            uri=self.uri,
            since=self.since,
            metadata=self.metadata,
            sparklake_conn_id=self.sparklake_conn_id,
            poke_interval=float(self.poke_interval),
        )
        lifetime = timedelta(seconds=float(self.timeout))
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=lifetime)

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> str:
        """Return the head from the trigger's event, or raise its error."""
        if "error" in event:
            raise failure(_NAME, int(event["code"]), event["error"])
        self.log.info("the head of %s is %s", self.uri, event["head"])
        return str(event["head"])

    def poke(self, context: Any) -> PokeReturnValue:
        """Return whether the content changed, with the id of the head."""
        with failing(_NAME), SparklakeHook(self.sparklake_conn_id).get_conn() as lake:
            head, has_changed = change(lake, self.uri, self.since, self.metadata)
        self.log.info(
            "the head of %s is %s, compared with %s", self.uri, head, self.since or "none"
        )
        return PokeReturnValue(is_done=has_changed, xcom_value=head)
