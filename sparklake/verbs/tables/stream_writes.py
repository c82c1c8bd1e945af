"""Streams into tables: micro-batches are staged exactly once, and committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from sparklake.errors import InvalidInputError, RaceLostError
from sparklake.layout import DATA_FOLDER
from sparklake.uri import SCHEME
from sparklake.verbs.base.context import Context
from sparklake.verbs.history.log import CLOCKS_DIFFER, LogOptions, log
from sparklake.verbs.tables.registry import get_format
from sparklake.verbs.tables.version import open_table, table_prefix
from sparklake.verbs.tables.write import check_owner, open_table_to_write
from sparklake.verbs.tables.write_request import write_request
from sparklake.verbs.tables.written import run_prefix

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUERY_METADATA_KEY, EPOCH_METADATA_KEY, OFFSETS_METADATA_KEY = (
    "stream-query",
    "stream-epoch",
    "stream-offsets",
)
"""The keys of a commit's metadata. The offsets are those of the sources after the batch."""

_MODES = {"append": "append", "complete": "overwrite"}
"""The mode of a write for each output mode of a stream."""

_MAX_OFFSETS_BYTES = 32 * 1024
_MAX_ATTEMPTS = 10

OpenBranch = Callable[["SparkSession"], AbstractContextManager[Any]]
"""A function from the session of a micro-batch to an open branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWrite:
    """The settings of a stream into a table. Every `every`-th epoch ends with a commit."""

    path: str
    checkpoint: str
    format: str
    output_mode: str
    every: int
    partition_by: Sequence[str]
    trigger: Mapping[str, Any] | None
    query_name: str | None
    schema_check: bool
    options: Mapping[str, Any]

    @property
    def mode(self) -> str:
        return _MODES[self.output_mode.lower()]


@dataclass(frozen=True, slots=True)
class Epoch:
    """A micro-batch: its query, its number, the offsets after it, and its earliest start."""

    query: str
    number: int
    offsets: str
    since: datetime | None

    @property
    def key(self) -> str:
        return f"stream/{self.query}/{self.number}"

    @property
    def metadata(self) -> dict[str, str]:
        labels = {
            QUERY_METADATA_KEY: self.query,
            EPOCH_METADATA_KEY: str(self.number),
            OFFSETS_METADATA_KEY: self.offsets,
        }
        return {name: text for name, text in labels.items() if text}


def start_stream(
    context: Context, branch: str, rows: DataFrame, write: StreamWrite, open_branch: OpenBranch
) -> StreamingQuery:
    """Start the query, after the checks that need no rows."""
    # Lazy import: it loads Spark.
    from sparklake.frames.stream_errors import raising_own_errors

    write = _checked(rows, write)
    request = write_request(
        rows=rows,
        branch=branch,
        path=write.path,
        table_format=write.format,
        mode=write.mode,
        partition_by=write.partition_by,
        options=write.options,
    )
    check_owner(request, open_table_to_write(context, request))
    writer = rows.writeStream.foreachBatch(EpochWriter(open_branch, write).run)
    writer = writer.outputMode(write.output_mode).option("checkpointLocation", write.checkpoint)
    writer = writer.queryName(write.query_name) if write.query_name else writer
    return raising_own_errors(
        (writer.trigger(**write.trigger) if write.trigger else writer).start()
    )


def _checked(rows: DataFrame, write: StreamWrite) -> StreamWrite:
    if not getattr(rows, "isStreaming", False):
        raise InvalidInputError(
            "write_stream needs a DataFrame of spark.readStream or lake.read_stream: write other "
            "rows with branch.write or lake.write"
        )
    table_format = get_format(write.format)
    if table_format.stream_options is None:
        raise InvalidInputError(
            f"tables of the format {table_format.title} cannot be written by write_stream: call "
            f"branch.write with format={table_format.name!r} and `once` in a function for "
            "foreachBatch"
        )
    if write.output_mode.lower() not in _MODES:
        raise InvalidInputError(
            f"the output mode {write.output_mode!r} is not supported: choose append or complete. "
            "For updates of rows, run MERGE in branch.edit_delta(path, once=...), in a function "
            "for foreachBatch"
        )
    if write.every < 1:
        raise InvalidInputError(f"every must be 1 or more batches, not {write.every}")
    if not write.checkpoint or write.checkpoint.startswith(SCHEME):
        raise InvalidInputError(
            f"{write.checkpoint!r} cannot be a checkpoint: choose a folder outside of the lake, "
            "which Spark can write to and which survives restarts"
        )
    own = {"once", "txnappid", "txnversion"} & {*map(str.lower, write.options)}
    if own:
        raise InvalidInputError(
            f"a stream cannot have the option {min(own)!r}: its batches have keys of their own"
        )
    return replace(write, checkpoint=write.checkpoint.rstrip("/"), format=write.format.lower())


# --- micro-batches --------------------------------------------------------------------------------


@dataclass(slots=True)
class EpochWriter:
    """Writes the micro-batches of a query, each exactly once.

    Spark repeats at most the last epoch, after a restart. It took effect if a commit of the query
    has it or a later one, if its idempotency key is recorded, or if the table has files of its
    write. Delta's own log decides for Delta tables. None of this is needed for the next epochs.
    """

    open_branch: OpenBranch
    write: StreamWrite
    _query: str = ""
    _is_fresh: bool = field(default=False)

    def run(self, rows: DataFrame, number: int) -> None:
        spark = rows.sparkSession
        epoch = self._epoch(spark, number)
        with self.open_branch(spark) as branch:
            _retried(lambda: self._take(branch, rows, epoch))
        self._is_fresh = True

    def _epoch(self, spark: SparkSession, number: int) -> Epoch:
        if not self._query:
            self._query = json.loads(_text(spark, f"{self.write.checkpoint}/metadata"))["id"]
        # The first line is the version, the second one has settings of the session.
        log = _text(spark, f"{self.write.checkpoint}/offsets/{number}").splitlines()
        offsets = "\n".join(log[2:])
        if len(offsets.encode()) > _MAX_OFFSETS_BYTES:
            offsets = f"{len(log) - 2} sources, in the checkpoint only: they are too long"
        return Epoch(self._query, number, offsets, _started(log))

    def _take(self, branch: Any, rows: DataFrame, epoch: Epoch) -> None:
        write, context = self.write, branch._context
        if not self._is_fresh and _is_committed(context, branch.name, write.path, epoch):
            _consume(rows)
            return
        once = f"{epoch.key}/write"
        if not self._is_fresh and self._is_staged(context, branch.name, once, epoch):
            _consume(rows)
        else:
            options = {**write.options, **self._own_options(epoch)}
            result = branch.write(
                rows,
                write.path,
                format=write.format,
                mode=write.mode,
                partition_by=write.partition_by,
                schema_check=write.schema_check,
                once=once,
                **options,
            )
            if not (self._is_fresh or result.files):
                _consume(rows)  # Delta may have skipped it.
        if (epoch.number + 1) % write.every == 0:
            branch.commit(
                f"write batch {epoch.number} of a stream to {write.path}",
                metadata=epoch.metadata,
                paths=[table_prefix(write.path)],
                if_needed=True,
                once=f"{epoch.key}/commit",
            )

    def _own_options(self, epoch: Epoch) -> Mapping[str, Any]:
        """Return the options by which a format skips a repeated epoch, if any."""
        options = get_format(self.write.format).stream_options
        return options(epoch.query, epoch.number) if options else {}

    def _is_staged(self, context: Context, branch: str, once: str, epoch: Epoch) -> bool:
        """Return whether the write took effect, False if the format decides it."""
        if context.refs.once_keys.find(once) is not None:
            return True
        if self._own_options(epoch):
            return False
        place = f"{DATA_FOLDER}{run_prefix(once)}"
        batches = open_table(context, branch, self.write.path).objects.batches()
        # Addresses outlive keys, also of files that others committed.
        masks = (pc.match_substring(each.column("address"), place) for each in batches)
        return any(pc.any(each).as_py() for each in masks)


def _consume(rows: DataFrame) -> None:
    """Run a skipped micro-batch: the state of its query is the one after these rows."""
    rows.write.format("noop").mode("overwrite").save()


def _is_committed(context: Context, branch: str, path: str, epoch: Epoch) -> bool:
    """Return whether a commit of the query on the branch has this epoch or a later one."""
    options = LogOptions(prefix=table_prefix(path), since=epoch.since)
    commits = (each.metadata for each in log(context, branch, options))
    numbers = (
        each[EPOCH_METADATA_KEY] for each in commits if each.get(QUERY_METADATA_KEY) == epoch.query
    )
    return int(next(numbers, "-1")) >= epoch.number


def _retried(take: Callable[[], None]) -> None:
    # Lazy import: only streams in progress need it.
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt
    from tenacity import wait_random_exponential as wait

    Retrying(
        retry=retry_if_exception_type(RaceLostError),
        stop=stop_after_attempt(_MAX_ATTEMPTS),
        wait=wait(multiplier=0.1, max=10),
        reraise=True,
    )(take)


def _text(spark: SparkSession, uri: str) -> str:
    """Return a file of a checkpoint. Spark reads it: only Spark may have access."""
    row = spark.read.text(uri, wholetext=True).first()
    return "" if row is None else str(row[0])


def _started(log: Sequence[str]) -> datetime | None:
    """Return a time before all commits of an epoch, by the checkpoint's clock."""
    try:
        started = json.loads(log[1])["batchTimestampMs"] / 1000
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    moment = datetime.fromtimestamp(started, timezone.utc)
    return moment - timedelta(seconds=CLOCKS_DIFFER) if started else None
