"""A copy of a Delta table's log for Delta's commits.

In a tree the log refers to files by paths relative to the table. Spark works on a copy in another
place, which refers to each file by its absolute address.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from sparklake.delta_log.actions import SECOND_FORM, has_any, said_of
from sparklake.delta_log.file_names import LOG_FOLDER, log_listing
from sparklake.delta_log.rewrite import Rewrite, rewritten_actions, rewritten_batch
from sparklake.errors import InvalidInputError
from sparklake.graveler.parquet_files import decode_parquet


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The required files of a log: since a checkpoint, or all.

    Names are relative to the log's folder. `version` is the latest, or -1 without one.
    """

    version: int
    checkpoint: str | None
    commits: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (*([self.checkpoint] if self.checkpoint else ()), *self.commits)


def files_to_read(names: Iterable[str], folder: str) -> LogFiles:
    """Return the required files of a complete log."""
    log = log_listing(((name, name) for name in names), classic=True)
    checkpoints = {version: one[0] for version, one in log.checkpoints.items() if len(one) == 1}
    latest = max([*log.commits, *checkpoints], default=-1)
    for start in (0, *sorted(checkpoints, reverse=True)):
        checkpoint = checkpoints[start] if start else None
        needed = range(start if checkpoint is None else start + 1, latest + 1)
        if all(each in log.commits for each in needed):
            commits = (name for version, name in sorted(log.commits.items()) if version >= start)
            return LogFiles(latest, checkpoint, tuple(commits))
    raise InvalidInputError(
        f"the log {folder}{LOG_FOLDER} has neither all entries nor a checkpoint in one file "
        "with all entries since: write to the table with Delta at its original location, and "
        "import it again"
    )


def copied_actions(body: bytes, name: str, rewrite: Rewrite) -> list[dict[str, Any]]:
    """Return the actions of a log entry with other paths.

    Rejects checkpoints in several files.
    """
    actions = rewritten_actions(body, name, rewrite)
    if any(True for _ in said_of(actions, *SECOND_FORM)):
        raise _several_files()
    return actions


def copied_checkpoint(body: bytes, rewrite: Rewrite) -> bytes:
    """Return a checkpoint with other paths."""
    table = decode_parquet(body, "a checkpoint of a Delta log")
    if has_any(table, *SECOND_FORM):
        raise _several_files()
    batches = table.combine_chunks().to_batches()
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema) as writer:
        for each in batches:
            writer.write_batch(rewritten_batch(each, rewrite))
    return sink.getvalue()


def _several_files() -> InvalidInputError:
    return InvalidInputError(
        "nothing was staged: the Delta table has checkpoints in several files, and such tables "
        "cannot be written to on a branch yet. Set delta.checkpointPolicy to classic where the "
        "table is, write a checkpoint, and import the table again"
    )
