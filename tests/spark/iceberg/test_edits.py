"""Edits of Iceberg tables: SQL on a private copy, staged at the end or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Repository
from sparklake.metadata.iceberg.documents import decode_document
from sparklake.metadata.iceberg.file_names import is_same_place
from tests.spark.iceberg.conftest import CATALOG, metadata_of
from tests.spark.iceberg.test_writes import TABLE, check_same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


@pytest.mark.parametrize(
    ("version", "mode"),
    [(2, "merge-on-read"), pytest.param(3, "merge-on-read", marks=pytest.mark.connect)],
)
def test_each_statement(
    repo: Repository, spark: SparkSession, warehouse: Path, version: int, mode: str
) -> None:
    name = f"{CATALOG}.statements{version}"
    modes = ", ".join(f"'write.{each}.mode'='{mode}'" for each in ("delete", "update", "merge"))
    properties = f"'format-version'='{version}', 'write.metadata.previous-versions-max'='2'"
    columns = "(id bigint, k string) PARTITIONED BY (k)"
    spark.sql(f"CREATE TABLE {name} {columns} TBLPROPERTIES ({properties}, {modes})")
    spark.sql(f"INSERT INTO {name} SELECT id, 'k' || id % 2 FROM range(8)")
    folder = warehouse / f"statements{version}"
    before = {each: each.stat().st_mtime_ns for each in folder.rglob("*")}
    repo.branch("main").import_objects(str(folder), TABLE)
    dev = repo.create_branch("work", "main")
    with dev.edit_iceberg(TABLE) as table:
        spark.sql(f"DELETE FROM {table} WHERE id = 1")
        spark.sql(f"UPDATE {table} SET k = 'new' WHERE id = 2")
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT 3L AS id UNION SELECT 30L) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET k = 'merged' "
            "WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 'k0')"
        )
        for call in ("expire_snapshots", "remove_orphan_files"):
            with pytest.raises(Exception, match="GC is disabled"):
                spark.sql(f"CALL {table.catalog}.system.{call}(table => '{table}')")
    edited = [
        (0, "k0"),
        (2, "new"),
        (3, "merged"),
        (30, "k0"),
        *((each, f"k{each % 2}") for each in range(4, 8)),
    ]
    assert check_same(repo, spark, "work") == sorted(edited, key=repr)
    assert len(check_same(repo, spark)) == 8
    dev.commit("edit")
    with dev.edit_iceberg(TABLE) as table:
        spark.sql(f"DELETE FROM {table} WHERE id = 4")
        spark.sql(f"ALTER TABLE {table} ADD COLUMN size int")
        spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'sales')")
        spark.sql(f"INSERT INTO {table} VALUES (40, 'k0', 1)")
        for call in ("rewrite_data_files", "rewrite_manifests"):
            spark.sql(f"CALL {table.catalog}.system.{call}(table => '{table}')")
    rows = [(*each, None) for each in edited if each[0] != 4] + [(40, "k0", 1)]
    assert check_same(repo, spark, "work") == sorted(rows, key=repr)
    document = decode_document(repo.open("work", metadata_of(repo, "work", TABLE).path).read())
    assert is_same_place(document["location"], f"file:{folder}")
    assert "gc.enabled" not in document["properties"]
    assert document["properties"]["team"] == "sales"
    assert len(document["metadata-log"]) == 2
    dev.commit("edit again")
    counts = repo.diff_table("main", "work", TABLE, key=["id"]).counts()
    assert (counts.added, counts.removed, counts.changed) == (2, 2, 2)
    repo.merge("work", "main")
    assert check_same(repo, spark) == sorted(rows, key=repr)
    assert {each: each.stat().st_mtime_ns for each in folder.rglob("*")} == before
