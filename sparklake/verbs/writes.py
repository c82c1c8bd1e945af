"""Tables: written by Spark's own writers to a fresh place, and staged as one run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparklake.config import Engine
from sparklake.engine.base import Runner
from sparklake.errors import AlreadyExistsError, InvalidInputError
from sparklake.graveler.guards import Action
from sparklake.graveler.ports import StoredObject
from sparklake.udfs.staging import STAGE_SCHEMA
from sparklake.udfs.strategies.objects import DATA_FOLDER
from sparklake.verbs.context import Context
from sparklake.verbs.fencing import begun_anew
from sparklake.verbs.namespaces import check_namespace
from sparklake.verbs.publish import until_it_lands
from sparklake.verbs.read import list_objects
from sparklake.verbs.resolve import open_branch
from sparklake.verbs.stage import deletions, stage_batches
from sparklake.verbs.table_paths import spark_uri, table_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HASHED_BY_TASKS_BYTES = 256 * 1024 * 1024
"""From how many bytes on the checksums of a write are computed by Spark tasks."""

_BATCH_ROWS = 8192


class WriteMode(str, Enum):
    """Is what a write does with the objects that a table has already."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR_IF_EXISTS = "errorifexists"


@dataclass(frozen=True, slots=True)
class TableWrite:
    """Says what a write has staged. `size` is in bytes."""

    path: str
    files: int
    size: int


@begun_anew
def write_table(
    context: Context,
    branch: str,
    rows: DataFrame,
    path: str,
    table_format: str,
    mode: str,
    partition_by: Sequence[str],
    options: Mapping[str, Any],
) -> TableWrite:
    """Writes a DataFrame below `data/` and stages its files as one run; a failure stages nothing.

    Raises AlreadyExistsError for `errorifexists` where the table has objects.
    """
    folder, chosen = table_folder(path), _mode(mode)
    fence = open_branch(context, branch, Action.STAGE).fence
    if chosen is WriteMode.ERROR_IF_EXISTS:
        _check_absent(context, branch, folder)
    check_namespace(context.store)
    place = f"{DATA_FOLDER}/{uuid.uuid4().hex}"
    writer = rows.write.format(table_format).options(**options)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.save(spark_uri(f"{context.info.storage_namespace}/{place}"))
    files = [each for each in context.store.list(f"{place}/") if not _is_hidden_file(each.key)]
    size = sum(each.size for each in files)
    until_it_lands(lambda: _stage(context, branch, folder, place, files, chosen, fence))
    return TableWrite(path, len(files), size)


def _mode(mode: str) -> WriteMode:
    try:
        return WriteMode({"error": "errorifexists"}.get(mode, mode))
    except ValueError as error:
        known = ", ".join(each.value for each in WriteMode)
        raise InvalidInputError(f"{mode!r} is no write mode: choose one of {known}") from error


def _check_absent(context: Context, branch: str, folder: str) -> None:
    if next(iter(list_objects(context, branch, folder)), None) is not None:
        raise AlreadyExistsError(
            f"{folder!r} has objects on {branch!r}: choose mode append or overwrite, or another "
            "path"
        )


def _stage(
    context: Context,
    branch: str,
    folder: str,
    place: str,
    files: Sequence[StoredObject],
    mode: WriteMode,
    fence: int,
) -> None:
    """Stages the files of a write; what it means for the older ones holds for what it has seen."""
    seen = None if mode is WriteMode.APPEND else context.refs.staging.seal(branch, Action.STAGE)
    if mode is WriteMode.ERROR_IF_EXISTS:
        _check_absent(context, branch, folder)
    runner = _runner(context, branch, sum(each.size for each in files))
    batches = _staged(context, branch, folder, place, files, mode)
    stage_batches(context, branch, runner, batches, seen, fence=fence)


def _staged(
    context: Context,
    branch: str,
    folder: str,
    place: str,
    files: Sequence[StoredObject],
    mode: WriteMode,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the new files and, for an overwrite, the removal of the old ones."""
    paths = {each.key: folder + each.key.removeprefix(f"{place}/") for each in files}
    rows = [
        {
            "path": paths[each.key],
            "size": each.size,
            "checksum": each.checksum or None,
            "mtime": each.mtime // 1000,
            "address": each.key,
        }
        for each in files
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=STAGE_SCHEMA)
    if mode is WriteMode.OVERWRITE:
        new = set(paths.values())
        old = (each.path for each in list_objects(context, branch, folder) if each.path not in new)
        while chunk := list(islice(old, _BATCH_ROWS)):
            yield deletions(chunk)


def _runner(context: Context, branch: str, size: int) -> Runner:
    if context.runners.engine is not Engine.LOCAL and size >= HASHED_BY_TASKS_BYTES:
        return context.runners.on_spark(context.title("write", branch))
    return context.runner(0, "write", branch)


def _is_hidden_file(key: str) -> bool:
    # Hadoop's local file system leaves a `.part-0.crc` beside each file.
    return key.rsplit("/", 1)[-1].startswith(".")
