"""Wait until `raw/` of main has changed since the last run, then tag that commit."""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import dag

from sparklake.airflow import CommitSensor, SparklakeOperator


@dag(
    schedule="@hourly",
    start_date=datetime(2026, 7, 1, tzinfo=timezone.utc),
    catchup=False,
    params={"repository": "lake"},
)
def on_commit() -> None:
    """Tag each commit that changes `raw/`."""
    wait = CommitSensor(
        task_id="wait",
        uri="lakefs://{{ params.repository }}/main/raw/",
        mode="reschedule",
        poke_interval=60,
        timeout=3000,
    )
    tag = SparklakeOperator(
        task_id="tag",
        verb="tag create",
        arguments=[
            "lakefs://{{ params.repository }}/raw-{{ ts_nodash }}",
            "lakefs://{{ params.repository }}/{{ ti.xcom_pull(task_ids='wait') }}",
        ],
    )
    wait >> tag


on_commit()
