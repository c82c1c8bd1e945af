"""A sensor for commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseSensorOperator, PokeReturnValue

from sparklake.airflow.failures import failing
from sparklake.airflow.hook import SparklakeHook
from sparklake.airflow.names import DEFAULT_CONNECTION
from sparklake.errors import ExpiredError, InvalidUriError
from sparklake.uri import parse_uri

if TYPE_CHECKING:
    from sparklake.lake import Lake

LAST_SEEN = (
    "{{ ti.xcom_pull(task_ids=ti.task_id, key='return_value', include_prior_dates=True,"
    " map_indexes=ti.map_index) or '' }}"
)
"""The commit that this sensor returned in its previous run, or nothing.

Without `map_indexes`, Airflow returns those of all previous runs.
"""


class CommitSensor(BaseSensorOperator):
    """Wait until a branch moves or a path changes; return the head as XCom.

    Staged changes do not count. Use `mode="reschedule"` for long waits: the sensor keeps no state.

    Args:
        uri: `lakefs://REPO/BRANCH`, or `lakefs://REPO/BRANCH/PATH` for an object, or for all
            below `PATH/` (templated).
        since: The id of the commit to compare with (templated). By default, the commit that this
            task returned in its previous run. Without one, the sensor returns the head immediately.
        sparklake_conn_id: The connection of the lake; None uses the worker's environment.
    """

    template_fields: Sequence[str] = ("uri", "since", "sparklake_conn_id")
    ui_color = "#d7e8f7"

    def __init__(
        self,
        *,
        uri: str,
        since: str = LAST_SEEN,
        sparklake_conn_id: str | None = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.uri = uri
        self.since = since
        self.sparklake_conn_id = sparklake_conn_id

    def poke(self, context: Any) -> PokeReturnValue:
        """Return whether the content changed, with the id of the head."""
        with failing("commit sensor"), SparklakeHook(self.sparklake_conn_id).get_conn() as lake:
            head, has_changed = change(lake, self.uri, self.since)
        self.log.info(
            "the head of %s is %s, compared with %s", self.uri, head, self.since or "none"
        )
        return PokeReturnValue(is_done=has_changed, xcom_value=head)


def change(lake: Lake, uri: str, since: str) -> tuple[str, bool]:
    """Return the branch's head, and whether the URI's content differs from `since`.

    If `since` has expired, its paths are unknown. The path then counts as changed.
    """
    place = parse_uri(uri)
    if place.ref is None:
        raise InvalidUriError(f"{uri} has no branch: write lakefs://REPO/BRANCH[/PATH]")
    repository = lake.repository(place.repository)
    head = str(repository.branch(place.ref).state.commit_id)
    if not since or head == since or not place.key:
        return head, head != since
    try:
        paths = (each.path for each in repository.diff(since, head, place.key))
        return head, any(is_at(path, place.key) for path in paths)
    except ExpiredError:
        return head, True


def is_at(path: str, place: str) -> bool:
    """Return whether a path equals a target, or is below it if the target ends in a slash."""
    return path.startswith(place) if place.endswith("/") else path == place
