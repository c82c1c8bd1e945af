"""Iceberg tables on branches of a lake, written in SQL by Iceberg's jar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.table import StaticTable

from campaigns.iceberg.branch_tables import TABLE
from campaigns.iceberg.spark_changes import SparkChange
from sparklake import Branch, Repository
from sparklake.iceberg_metadata.file_names import METADATA_FOLDER, current_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = {
    "spark copy-on-write": (2, "copy-on-write"),
    "spark position deletes": (2, "merge-on-read"),
    "spark vectors": (3, "merge-on-read"),
}
"""The format version and the mode of changes of each kind of table."""


class SparkTable:
    """One table on the branches of a repository."""

    def __init__(self, repo: Repository, spark: SparkSession, kind: str, *, by_part: bool) -> None:
        self.repo, self.spark, self.by_part = repo, spark, by_part
        version, mode = FORMATS[kind]
        options: dict[str, Any] = {
            "format-version": version,
            **{f"write.{each}.mode": mode for each in ("delete", "update", "merge")},
            # Each row of a change stays in one file of its partition.
            "write.distribution-mode": "hash" if by_part else "none",
        }
        empty = spark.sql("SELECT 0L AS id, '' AS part, 0L AS value WHERE false")
        partitions = ["part"] if by_part else []
        main = repo.branch("main")
        main.write(empty, TABLE, "iceberg", partition_by=partitions, **options)
        main.commit("create")

    def run(self, branch: Branch, changes: Sequence[SparkChange]) -> None:
        """Apply changes in one edit, and commit it."""
        with branch.edit_iceberg(TABLE) as name:
            for each in changes:
                columns = self.spark.table(name).columns
                for statement in each.statements(name, name.catalog, columns, self._spec(name)):
                    self.spark.sql(statement)
        branch.commit("change", allow_empty=True)

    def _spec(self, name: str) -> str:
        jvm: Any = self.spark._jvm
        util = jvm.org.apache.iceberg.spark.Spark3Util
        return str(util.loadIcebergTable(self.spark._jsparkSession, name).spec().toString())

    def rows(self, ref: str) -> list[tuple[Any, ...]]:
        """Read with the jar, without it and with pyiceberg."""
        folder = f"{TABLE}/{METADATA_FOLDER}"
        objects = {each.path.removeprefix(folder): each for each in self.repo.objects(ref, folder)}
        place = objects[str(current_metadata(objects))].address
        by_jar = _sorted(self.spark.read.format("iceberg").load(place).collect())
        view = self.repo.view(ref, TABLE)
        without_jar = _sorted(self.spark.read.format("delta").load(view).collect())
        if without_jar != by_jar:
            raise ValueError(f"{ref} has {without_jar} without the jar, and {by_jar} with it")
        python_rows = StaticTable.from_metadata(place).scan().to_arrow().to_pylist()
        by_python = _sorted(each.values() for each in python_rows)
        if by_python != by_jar:
            raise ValueError(f"{ref} has {by_python} in pyiceberg, and {by_jar} with the jar")
        return by_jar


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(each) for each in rows), key=repr)
