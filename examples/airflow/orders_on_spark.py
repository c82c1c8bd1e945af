"""Append a Parquet file to a table with spark-submit, on a branch, and merge it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import dag

from sparklake.airflow import SparklakeSubmitOperator, branch_per_run


@dag(
    schedule="@daily",
    start_date=datetime(2026, 7, 1, tzinfo=timezone.utc),
    catchup=False,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=1)},
    params={"source": "s3a://bucket/orders", "repository": "lake"},
)
def orders_on_spark() -> None:
    """Append the rows of a day to a table, all or nothing."""
    with branch_per_run("load", repository="{{ params.repository }}") as load:
        SparklakeSubmitOperator(
            task_id="append",
            verb="write",
            arguments=[
                load.path("tables/orders"),
                "--from",
                "{{ params.source }}/{{ ds }}",
                "--mode",
                "append",
            ],
            conf={"spark.ui.enabled": "false", "spark.log.level": "WARN"},
            retries=3,
        )


orders_on_spark()
