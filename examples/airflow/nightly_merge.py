"""Merge a branch with spark-submit. All tries of a run take effect once."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import dag

from sparklake.airflow import SparklakeSubmitOperator


@dag(
    schedule="@daily",
    start_date=datetime(2026, 7, 1, tzinfo=timezone.utc),
    catchup=False,
    params={"repository": "lake"},
)
def nightly_merge() -> None:
    """Merge `nightly` into `main` with spark-submit."""
    SparklakeSubmitOperator(
        task_id="merge",
        verb="merge",
        arguments=[
            "lakefs://{{ params.repository }}/nightly",
            "lakefs://{{ params.repository }}/main",
        ],
        conf={"spark.ui.enabled": "false", "spark.log.level": "WARN"},
        retries=2,
        retry_delay=timedelta(seconds=1),
    )


nightly_merge()
