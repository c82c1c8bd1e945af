"""Result rows of statements on refs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparklake.graveler.commits import Commit
from sparklake.graveler.ports import BranchState, TagInfo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SmallRows:
    """Rows of the schema `ddl`, in memory."""

    ddl: str
    rows: Sequence[Mapping[str, Any]]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def to_df(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([tuple(each.values()) for each in self.rows], self.ddl)


def branch_rows(states: Sequence[BranchState]) -> SmallRows:
    rows = [
        {"name": each.name, "commit_id": each.commit_id, "dirty": bool(each.layers)}
        for each in states
    ]
    return SmallRows("name string, commit_id string, dirty boolean", rows)


def tag_rows(tags: Sequence[TagInfo]) -> SmallRows:
    rows = [{"name": each.name, "commit_id": each.commit_id} for each in tags]
    return SmallRows("name string, commit_id string", rows)


def commit_rows(branch: str, commit: Commit) -> SmallRows:
    row = {"branch": branch, "commit_id": commit.id, "message": commit.message}
    return SmallRows("branch string, commit_id string, message string", [row])


def staged_rows(path: str, files: int, size: int) -> SmallRows:
    """Return the written or removed files of a table."""
    row = {"path": path, "files": files, "size": size}
    return SmallRows("path string, files bigint, size bigint", [row])
