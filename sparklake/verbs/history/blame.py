"""Blame: the commit behind each object's current state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklake._html import html_table
from sparklake.engine.spark import shipped
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.blocks.block import Block, concatenated
from sparklake.graveler.chunks import sliced
from sparklake.graveler.commits import Commit
from sparklake.graveler.keys import Interval, key_path, key_prefix, prefix_interval
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.graveler.times import datetime_of
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import get_commit
from sparklake.verbs.history.log_rows import spark_timestamps
from sparklake.verbs.history.origins import OriginWalk, SearchedRecords

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBJECTS_AT_ONCE = 100_000
"""The number of objects whose history is walked together. Memory grows with it."""

BLAME_SCHEMA = required_schema(
    path=pa.string(),
    commit_id=pa.string(),
    committer=pa.string(),
    creation_date=pa.timestamp("us", tz="UTC"),
    message=pa.string(),
)


@dataclass(frozen=True, slots=True)
class BlameRow:
    """An object, and the last commit that changed it."""

    path: str
    commit: Commit


@dataclass(frozen=True, slots=True)
class Blame:
    """The result of a blame, in byte order. Iteration streams it."""

    _context: Context
    _commit: Commit
    _within: Interval

    def __iter__(self) -> Iterator[BlameRow]:
        for keys, commits in self._found():
            for key, commit in zip(keys, commits, strict=True):
                yield BlameRow(key_path(key), commit)

    def __repr__(self) -> str:
        return f"Blame(at {self._commit.id[:12]})"

    def _repr_html_(self) -> str:
        rows = (
            {
                "path": each.path,
                "commit": each.commit.id[:12],
                "date": datetime_of(each.commit.creation_date),
                "committer": each.commit.committer,
                "message": each.commit.message,
            }
            for each in self
        )
        columns = ("path", "commit", "date", "committer", "message")
        return html_table(f"blame at {self._commit.id[:12]}", columns, rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for keys, commits in self._found():
            yield pa.record_batch(
                [
                    pa.array(map(key_path, keys), pa.string(), size=len(keys)),
                    [each.id for each in commits],
                    [each.committer for each in commits],
                    spark_timestamps([each.creation_date for each in commits]),
                    [each.message for each in commits],
                ],
                schema=BLAME_SCHEMA,
            )

    def to_arrow(self) -> pa.Table:
        """Return all rows as one Arrow table of BLAME_SCHEMA, in memory."""
        return pa.Table.from_batches(self.batches(), BLAME_SCHEMA)

    def to_df(self) -> DataFrame:
        """Return the rows as a Spark DataFrame with ordered partitions."""
        return shipped(self._context.runners.on_spark(), self.batches(), BLAME_SCHEMA)

    def _found(self) -> Iterator[tuple[list[bytes], Sequence[Commit]]]:
        for block in self._blocks():
            keys = block.key_array().to_pylist()
            searched = SearchedRecords.present(keys, block.ids)
            yield keys, OriginWalk(self._context, self._within, searched).commits(self._commit)

    def _blocks(self) -> Iterator[Block]:
        ranges = self._context.tree(self._commit).ranges
        blocks = read_ranges(self._context.store, ranges, self._within)
        return map(concatenated, sliced(blocks, OBJECTS_AT_ONCE, len))


def blame(context: Context, ref: str, prefix: str) -> Blame:
    return Blame(context, get_commit(context, ref), prefix_interval(key_prefix(prefix)))
