"""Rewrites of paths in Delta logs: relative in trees, absolute in copies for Spark."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.delta_log.actions import (
    OF_FILES,
    SECOND_FORM,
    decode_actions,
    encode_actions,
    fields_of,
    has_any,
)
from sparklake.delta_log.file_names import LOG_FOLDER, log_listing
from sparklake.delta_log.paths import is_relative_path, name_of, vector_path
from sparklake.errors import InvalidInputError
from sparklake.graveler.arrow_batches import with_column
from sparklake.graveler.parquet_files import decode_parquet

Rewrite = Callable[[Sequence[dict[str, Any]]], None]
"""A function to edit the paths and deletion vectors in actions' fields."""

Resolve = Callable[[pa.Array], pa.Array]
"""A function from file names below the table to percent-encoded addresses."""

_VECTOR = "deletionVector"
_VECTOR_PATH = "pathOrInlineDv"


def rewritten_actions(body: bytes, name: str, rewrite: Rewrite) -> list[dict[str, Any]]:
    actions = decode_actions(body, name)
    rewrite(list(fields_of(actions, *OF_FILES)))
    return actions


def rewritten_commit(body: bytes, name: str, rewrite: Rewrite) -> bytes:
    return encode_actions(rewritten_actions(body, name, rewrite))


def rewritten_batch(batch: pa.RecordBatch, rewrite: Rewrite) -> pa.RecordBatch:
    for name in OF_FILES:
        at = batch.schema.get_field_index(name)
        if at >= 0:
            column = _rewritten_files(batch.column(at), rewrite)
            batch = with_column(batch, batch.schema.field(at), column)
    return batch


def _rewritten_files(files: pa.StructArray, rewrite: Rewrite) -> pa.StructArray:
    fields = [each for each in files.type if each.name in ("path", _VECTOR)]
    columns = [files.field(each.name) for each in fields]
    paths = pa.StructArray.from_arrays(columns, fields=fields, mask=files.is_null())
    rows = paths.to_pylist()
    rewrite([row for row in rows if row is not None])
    rewritten = pa.array(rows, paths.type)
    parts = [
        rewritten.field(each.name) if each in fields else files.field(each.name)
        for each in files.type
    ]
    return pa.StructArray.from_arrays(parts, fields=list(files.type), mask=files.is_null())


def to_addresses(resolve: Resolve) -> Rewrite:
    """Return a rewrite of all relative paths, also in deletion vectors, to addresses."""

    def rewrite(files: Sequence[dict[str, Any]]) -> None:
        places = [place for fields in files for place in relative_places(fields)]
        addresses = resolve(pa.array([each.name for each in places], pa.string()))
        for place, address in zip(places, addresses.to_pylist(), strict=True):
            place.replace(address)

    return rewrite


@dataclass(frozen=True, slots=True)
class RelativePlace:
    """A relative path in an action. `name` is decoded, `text` is its spelling."""

    holder: dict[str, Any]
    key: str
    name: str

    @property
    def text(self) -> str:
        text: str = self.holder[self.key]
        return text

    def replace(self, address: str) -> None:
        self.holder[self.key] = address
        if self.key == _VECTOR_PATH:
            self.holder["storageType"] = "p"


def relative_places(fields: dict[str, Any]) -> Iterator[RelativePlace]:
    path, vector = fields.get("path"), fields.get(_VECTOR)
    if path is not None and is_relative_path(path):
        yield RelativePlace(fields, "path", name_of(path))
    if vector and vector.get("storageType") == "u":
        yield RelativePlace(vector, _VECTOR_PATH, vector_path(vector[_VECTOR_PATH]))


def restore_relative(fields: dict[str, Any], find: Callable[[str], str | None]) -> None:
    """Replace absolute paths in an action with the relative ones from `find`."""
    vector = fields.get(_VECTOR) or {}
    for holder, key in ((fields, "path"), (vector, _VECTOR_PATH)):
        relative = find(holder[key]) if key in holder else None
        if relative is not None:
            holder[key] = relative
            if holder is vector:
                vector["storageType"] = "u"


# --- copies ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogFiles:
    """A log's required files: since a checkpoint, or all. `version` may be -1."""

    version: int
    checkpoint: str | None
    commits: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.checkpoint, *self.commits) if self.checkpoint else self.commits


def files_to_read(names: Iterable[str], folder: str) -> LogFiles:
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
    """Rewrite a log entry. Checkpoints in several files are rejected."""
    actions = rewritten_actions(body, name, rewrite)
    if any(True for _ in fields_of(actions, *SECOND_FORM)):
        raise _several_files()
    return actions


def copied_checkpoint(body: bytes, rewrite: Rewrite) -> bytes:
    table = decode_parquet(body, "a checkpoint of a Delta log")
    if has_any(table, *SECOND_FORM):
        raise _several_files()
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema) as writer:
        for each in table.combine_chunks().to_batches():
            writer.write_batch(rewritten_batch(each, rewrite))
    return sink.getvalue()


def _several_files() -> InvalidInputError:
    return InvalidInputError(
        "nothing was staged: the Delta table has multi-part checkpoints, which are not supported "
        "for writes on a branch. Set delta.checkpointPolicy to classic where the "
        "table is, write a checkpoint, and import the table again"
    )
