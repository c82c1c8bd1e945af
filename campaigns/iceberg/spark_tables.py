"""Iceberg tables on branches of a lake, written in SQL by Iceberg's jar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.table import StaticTable

from campaigns.iceberg.branch_tables import TABLE
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
        self.repo, self.spark = repo, spark
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

    def run(self, branch: Branch, statements: Sequence[str]) -> None:
        """Run statements, in which {0} is the table, in one edit, and commit it."""
        with branch.edit_iceberg(TABLE) as name:
            for each in statements:
                self.spark.sql(each.format(name))
        branch.commit("change", allow_empty=True)

    def rows(self, ref: str) -> list[tuple[Any, ...]]:
        """Read with the jar, without it and with pyiceberg."""
        folder = f"{TABLE}/{METADATA_FOLDER}"
        objects = {each.path.removeprefix(folder): each for each in self.repo.objects(ref, folder)}
        place = objects[str(current_metadata(objects))].address
        by_jar = _sorted(self.spark.read.format("iceberg").load(place).collect())
        if _sorted(self.repo.read(ref, TABLE).collect()) != by_jar:
            raise ValueError(f"{ref} has other rows without the jar than with it")
        by_python = StaticTable.from_metadata(place).scan().to_arrow().to_pylist()
        if _sorted(each.values() for each in by_python) != by_jar:
            raise ValueError(f"{ref} has other rows in pyiceberg than with the jar")
        return by_jar


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(each) for each in rows), key=repr)
