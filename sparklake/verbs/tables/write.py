"""Write tables with Spark's writers to a new prefix, and stage them as one run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import AlreadyExistsError, InvalidInputError
from sparklake.graveler.guards import Action
from sparklake.graveler.ports import BranchState, Write
from sparklake.metadata.delta.table_files import partition_of, plain_files
from sparklake.rows.objects import STAGE_SCHEMA, ObjectInfo
from sparklake.stores.objects.addresses import spark_uri, spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.resolve import get_branch, open_branch
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.objects.stage import deletions, stage_batches
from sparklake.verbs.tables.file_schemas import differing_types, find_file_types
from sparklake.verbs.tables.foreign import check_no_owner
from sparklake.verbs.tables.registry import PARQUET, found_format
from sparklake.verbs.tables.spark_writer import save_rows
from sparklake.verbs.tables.version import TableVersion, open_table
from sparklake.verbs.tables.write_request import TableWrite, WriteMode, WriteRequest
from sparklake.verbs.tables.written import begun, written_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("sparklake.tables")

_SHOWN = 5
"""The number of columns or partitions in a message."""


def write_files(
    context: Context, rows: DataFrame, request: WriteRequest, table: TableVersion | None = None
) -> TableWrite:
    """Write plain files below `data/`, and stage them as one run, or nothing."""
    table = open_table_to_write(context, request, table)
    if not may_write(request, table):
        return TableWrite(request.path)
    rows = _typed_rows(rows, request, table)
    check_fits(lambda: rows.schema, request, table)
    check_namespace(context.store)
    with begun(context, request.branch) as write:
        check = save_rows(context, rows, request, write.place)
        with written_files(context, request.branch, write.place) as files:
            check(files["name"])
            return stage_files(context, request, write, files)


def stage_files(
    context: Context, request: WriteRequest, write: Write, files: pa.Table
) -> TableWrite:
    """Stage the files of a registered write, given as FILE_SCHEMA, and close it."""
    return with_branch_queue(context, request.branch, lambda: _land(context, request, write, files))


def open_table_to_write(
    context: Context, request: WriteRequest, table: TableVersion | None = None
) -> TableVersion:
    open_branch(context, request.branch, Action.STAGE)
    return table or open_table(context, request.branch, request.path)


def may_write(request: WriteRequest, table: TableVersion) -> bool:
    """Return whether the mode allows the write, or raise AlreadyExistsError."""
    if not request.mode.is_first or not table.has_objects:
        return True
    if request.mode is WriteMode.IGNORE:
        return False
    raise AlreadyExistsError(
        f"{request.folder!r} already has objects on {request.branch!r}: choose the mode "
        "append or overwrite, or another path"
    )


def check_fits(
    schema: Callable[[], StructType], request: WriteRequest, table: TableVersion
) -> None:
    """Reject rows that could not be read with those of the table.

    Their schema is asked for last: Spark may have to analyse a plan for it.
    """
    check_owner(request, table)
    if request.format == PARQUET:
        _check_typed(schema(), request)
    if not request.mode.adds:
        return
    if (name := found_format(table)) != PARQUET:
        raise InvalidInputError(
            f"{request.folder!r} is a {name.title()} table on {request.branch!r}: write to it with "
            f"the format {name!r}, or overwrite all of it"
        )
    file = _find_file(table)
    if file is None:
        return
    columns = _partitioned_by(file, table)
    if columns != list(request.partition_by):
        how = f"by {', '.join(columns)}" if columns else "by no column"
        raise InvalidInputError(
            f"{request.folder!r} is partitioned {how} on {request.branch!r}: write to it with "
            "the same partition_by, or overwrite all of it"
        )
    if request.schema_check and request.format == PARQUET:
        _check_schema(schema, request, file)


def _typed_rows(rows: DataFrame, request: WriteRequest, table: TableVersion) -> DataFrame:
    """Give columns of only nulls the table's types."""
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_views import typed_nulls, void_columns
    from sparklake.frames.tables.spark_sources import spark_schema

    if request.format != PARQUET or not request.mode.adds or not void_columns(rows.schema):
        return rows
    file = _find_file(table)
    if file is None:
        return rows
    uri = spark_uri(file.address)
    return typed_nulls(rows, spark_schema(rows.sparkSession, [uri], PARQUET, {}))


def _check_typed(schema: StructType, request: WriteRequest) -> None:
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_views import void_columns

    columns = [each for each in void_columns(schema) if each not in request.partition_by]
    if columns:
        raise InvalidInputError(
            f"{', '.join(columns[:_SHOWN])} in the rows for {request.folder!r} would have only "
            "nulls and no type (void), as lit(None) has: Parquet files with typed values could not "
            "be read beside them. Cast the columns, for example with lit(None).cast('string')"
        )


def partition_columns(table: TableVersion) -> list[str]:
    file = _find_file(table)
    return [] if file is None else _partitioned_by(file, table)


def _partitioned_by(file: ObjectInfo, table: TableVersion) -> list[str]:
    return [name for name, _ in partition_of(file.path.removeprefix(table.folder))]


def _check_schema(
    schema: Callable[[], StructType], request: WriteRequest, file: ObjectInfo
) -> None:
    # Lazy import: it loads Spark.
    from sparklake.frames.tables.parquet_views import type_names

    before = find_file_types(file, request.branch)
    if before is None:
        return
    folders = {each.lower() for each in request.partition_by}
    after = {name: kind for name, kind in type_names(schema()).items() if name not in folders}
    what = f"{request.folder!r} on {request.branch!r}"
    types = differing_types(before, after)
    if types:
        raise InvalidInputError(
            f"the types of the rows differ from {what}, which could no longer be read: "
            f"{', '.join(types[:_SHOWN])}. Cast the columns, or force it with --no-schema-check "
            "(schema_check=False)"
        )
    missing, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    if (missing or new) and not request.merges_schema:
        sides = [
            f"{word} are {', '.join(names)}"
            for word, names in (("missing", missing), ("new", new))
            if names
        ]
        raise InvalidInputError(
            f"the columns of the rows differ from {what}: {'; '.join(sides)}. Set the option "
            "mergeSchema=true to write them, and to read the table; missing ones are null"
        )


def check_owner(request: WriteRequest, table: TableVersion) -> None:
    """Reject a write into a table with metadata, unless it writes or replaces all of the table.

    An append of another format to a table that may contain others is rejected later.
    """
    owner = table.owner
    if owner is not None and owner.folder == request.folder:
        replaces = request.mode is WriteMode.OVERWRITE
        if replaces or owner.kind.nests or owner.format.lower() == request.format:
            return
    check_no_owner(owner, request.path, request.branch)


def _find_file(table: TableVersion) -> ObjectInfo | None:
    for batch in plain_files(table.objects.batches(), table.folder, spark_uris):
        for relative in batch.column("relative")[:1].to_pylist():
            return table.snapshot.stat(f"{table.folder}{relative}")
    return None


@restarts()
def _land(context: Context, request: WriteRequest, write: Write, files: pa.Table) -> TableWrite:
    """Stage the files of a write. Removals of older files apply only to the sealed state."""
    expected = None
    rows = (staged_rows(each, request.folder, write.place) for each in files.to_batches())
    batches: Iterator[pa.RecordBatch] = rows
    fence = get_branch(context, request.branch).fence
    if request.mode is not WriteMode.APPEND:
        expected = context.refs.staging.seal(request.branch, Action.STAGE)
        table = open_table(context, request.branch, request.path)
        if not may_write(request, table):
            return TableWrite(request.path)
        batches = chain(rows, removals(request, table, files["name"]))
    return stage_write(
        context, request, write, files=files, batches=batches, expected=expected, fence=fence
    )


def stage_write(
    context: Context,
    request: WriteRequest,
    write: Write,
    files: pa.Table,
    batches: Iterable[pa.RecordBatch],
    expected: BranchState | None,
    *,
    fence: int,
) -> TableWrite:
    """Stage rows of STAGE_SCHEMA, and close the write. `files` are the written data files."""
    runner = context.runner(files.num_rows, "write", request.branch)
    # Every collection spares the files in the place of an open write. The fence is for the run.
    staged = TableWrite(request.path, files.num_rows, int(pc.sum(files["size"]).as_py() or 0))
    stage_batches(
        context,
        request.branch,
        runner,
        batches=batches,
        expected=expected,
        write=write.id,
        fence=fence,
        result=lambda: staged,
    )
    return staged


def staged_rows(
    files: pa.RecordBatch, folder: str, place: str, names: pa.Array | None = None
) -> pa.RecordBatch:
    """Convert files to STAGE_SCHEMA, under their own or the given names in a folder."""
    name = files.column("name")
    columns = {
        **{each.name: pa.nulls(files.num_rows, each.type) for each in STAGE_SCHEMA},
        "path": pc.binary_join_element_wise(folder, name if names is None else names, ""),
        "address": pc.binary_join_element_wise(f"{place}/", name, ""),
        **{each: files.column(each) for each in ("size", "checksum", "mtime")},
    }
    return pa.record_batch(list(columns.values()), schema=STAGE_SCHEMA)


def removals(
    request: WriteRequest, table: TableVersion, names: pa.Array
) -> Iterator[pa.RecordBatch]:
    """Yield an overwrite's removals of files other than `names`."""
    if request.mode not in (WriteMode.OVERWRITE, WriteMode.OVERWRITE_PARTITIONS):
        return
    depth = len(request.partition_by)
    within, equal = None, set[str]()
    if request.mode is WriteMode.OVERWRITE_PARTITIONS:
        within = pc.unique(_partition(pc.unique(names), depth)).drop_null()
        numbers = _unpadded(within)
    for batch in table.objects.batches():
        paths = batch.column("path")
        name = pc.utf8_slice_codeunits(paths, len(table.folder))
        removed = pc.invert(pc.is_in(name, value_set=names))
        if within is not None:
            partitions = _partition(name, depth)
            is_within = pc.is_in(partitions, value_set=within)
            is_equal = pc.is_in(_unpadded(partitions), value_set=numbers)
            equal.update(partitions.filter(pc.and_not(is_equal, is_within)).unique().to_pylist())
            removed = pc.and_(removed, is_within)
        if pc.any(removed).as_py():
            yield deletions(paths.filter(removed))
    if equal:
        _LOG.warning(
            "%s keeps %s, which Spark reads as partitions of the written rows: as in Spark, an "
            "overwrite replaces directories by their names. Write the spelling of the table, or "
            "remove these",
            table.folder,
            ", ".join(map(unquote, sorted(equal)[:_SHOWN])),
        )


def _unpadded(partitions: pa.Array) -> pa.Array:
    """Return partitions without leading zeros, which Spark ignores in numbers."""
    return pc.replace_substring_regex(partitions, "(%3D-?)0+([0-9]+/)", r"\1\2")


def _partition(names: pa.Array, depth: int) -> pa.Array:
    """Return the partition folders of files in one spelling, null without a partition."""
    pattern = rf"^((?:[^/]*/){{{depth}}})(?s:.*)$"
    inside = pc.match_substring_regex(names, pattern)
    folders = pc.replace_substring_regex(names, pattern, r"\1")
    folders = pc.if_else(inside, folders, None).dictionary_encode()
    # Spark, pyarrow and others escape different characters.
    spelled = [
        "/".join(quote(unquote_to_bytes(part), safe="") for part in each.split("/"))
        for each in folders.dictionary.to_pylist()
    ]
    return pa.array(spelled, pa.string()).take(folders.indices)
