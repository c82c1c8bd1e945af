"""Spark DDL of result rows."""

from __future__ import annotations

from sparklake.engine.ddl import spark_ddl
from sparklake.rows.diffs import THREE_WAY_SCHEMA
from sparklake.verbs.history.log_rows import LOG_SCHEMA

SIDE = "struct<size: bigint, checksum: string, mtime: timestamp>"


def test_each_arrow_type_maps_to_a_spark_type() -> None:
    assert spark_ddl(LOG_SCHEMA) == (
        "id string, parents array<string>, committer string, message string, "
        "creation_date timestamp, meta_range_id string, metadata map<string, string>, "
        "generation bigint, expired boolean"
    )
    assert spark_ddl(THREE_WAY_SCHEMA) == (
        f"type string, path string, size bigint, base {SIDE}, source {SIDE}, dest {SIDE}"
    )
