"""Load files of orders on a branch of their own, check them, and merge them into main."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import dag, task

from sparklake.airflow import SparklakeHook, SparklakeOperator, branch_per_run


@dag(
    schedule="@daily",
    start_date=datetime(2026, 7, 1, tzinfo=timezone.utc),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1)},
    params={"inbox": "/data/inbox", "repository": "lake"},
)
def orders_load() -> None:
    """Load the files of a day, all or nothing."""
    with branch_per_run("load", repository="{{ params.repository }}") as load:
        write = SparklakeOperator(
            task_id="write",
            verb="put",
            arguments=["-r", "{{ params.inbox }}/{{ ds }}", load.path("orders/{{ ds }}/")],
        )

        @task
        def check(uri: str) -> int:
            """Refuse empty files; nothing is merged then."""
            repository, branch, prefix = uri.removeprefix("lakefs://").split("/", 2)
            with SparklakeHook().get_conn() as lake:
                found = list(lake.repository(repository).objects(branch, prefix))
            empty = [each.path for each in found if each.size == 0]
            if empty:
                raise ValueError(f"{len(empty)} of {len(found)} files are empty: {empty[:3]}")
            return len(found)

        write >> check(load.path("orders/{{ ds }}/"))


orders_load()
