"""Commits as Arrow rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.chunks import chunked
from sparklake.graveler.commits import COMMITS_AT_ONCE, Commit
from sparklake.graveler.times import FIRST_SECOND, LAST_SECOND, SECOND_MICROS

LOG_SCHEMA = required_schema(
    id=pa.string(),
    parents=pa.list_(pa.string()),
    committer=pa.string(),
    message=pa.string(),
    creation_date=pa.timestamp("us", tz="UTC"),
    meta_range_id=pa.string(),
    metadata=pa.map_(pa.string(), pa.string()),
    generation=pa.int64(),
    expired=pa.bool_(),
)


def commit_batches(commits: Iterable[tuple[Commit, bool]]) -> Iterator[pa.RecordBatch]:
    """Stream commits, each with its expiry state, as batches of LOG_SCHEMA."""
    for rows in chunked(commits, COMMITS_AT_ONCE):
        some, expired = zip(*rows, strict=True)
        yield pa.record_batch(
            [
                [each.id for each in some],
                pa.array([each.parents for each in some], pa.list_(pa.string())),
                [each.committer for each in some],
                [each.message for each in some],
                spark_timestamps([each.creation_date for each in some]),
                [each.meta_range_id for each in some],
                pa.array([[*each.metadata.items()] for each in some], LOG_SCHEMA.field(6).type),
                [each.generation for each in some],
                expired,
            ],
            schema=LOG_SCHEMA,
        )


def spark_timestamps(unix_seconds: Sequence[int]) -> pa.Array:
    """Return unix seconds as Spark timestamps, clipped to the years 1 to 9999."""
    seconds = np.clip(np.array(unix_seconds, np.int64), FIRST_SECOND, LAST_SECOND)
    return pa.array(seconds * SECOND_MICROS).cast(pa.timestamp("us", "UTC"))
