"""Edits of tables with metadata: an engine commits to a private copy, which is staged."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from sparklake.errors import InvalidInputError, TableChangedError
from sparklake.graveler.guards import Action
from sparklake.graveler.ports import Write
from sparklake.rows.objects import FILE_SCHEMA
from sparklake.stores.objects.addresses import spark_uri
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.once import Once, digest_of, once_scope
from sparklake.verbs.base.resolve import get_branch
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.tables.registry import get_format
from sparklake.verbs.tables.version import TableVersion, open_table
from sparklake.verbs.tables.write import (
    check_owner,
    may_write,
    open_table_to_write,
    removals,
    stage_write,
    staged_rows,
    write_files,
)
from sparklake.verbs.tables.write_request import RESULT, TableWrite, WriteMode, WriteRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_ATTEMPTS = 5
"""The maximum number of attempts of a write with concurrent changes."""

_STAGED = "_staged/"


class EditLocation(str):
    """The name of a table copy to edit, and that in statements.

    `repeated` reports whether the edit was already staged.
    """

    __slots__ = ("repeated", "sql_name")

    repeated: bool
    sql_name: str


@dataclass(frozen=True, slots=True)
class TableCopy(ABC):
    """The private copy of a table in the place of a write. A new table `is_new`.

    `metadata` names the files that make a folder a table of the format.
    """

    context: Context
    request: WriteRequest
    write: Write
    is_new: bool

    metadata: ClassVar[str]

    @abstractmethod
    def save(self, rows: DataFrame) -> None:
        """Let the engine write a DataFrame to the copy."""

    @abstractmethod
    def stage(self) -> TableWrite:
        """Stage the commits to the copy."""

    @property
    @abstractmethod
    def sql_name(self) -> str:
        """The name of the copy in statements."""

    def edit_location(self) -> EditLocation:
        return EditLocation(self.location)

    @property
    def location(self) -> str:
        return spark_uri(f"{self.context.info.storage_namespace}/{self.write.place}")

    def put(self, name: str, body: bytes) -> pa.RecordBatch:
        """Write a file beside the copy, to be staged under any name, as FILE_SCHEMA."""
        name = f"{_STAGED}{name}"
        self.context.store.put_if_absent(f"{self.write.place}/{name}", body)
        checksum = hashlib.md5(body, usedforsecurity=False).hexdigest()
        mtime = pa.array([time.time_ns() // 1000]).cast(FILE_SCHEMA.field("mtime").type)
        columns = [pa.array([name]), pa.array([len(body)]), pa.array([checksum]), mtime]
        return pa.record_batch(columns, schema=FILE_SCHEMA)

    def check_new(self, table: TableVersion) -> None:
        """Reject a new table in a folder with other objects, unless it replaces them."""
        request = self.request
        if not self.is_new:
            return
        check_owner(request, table)
        if request.mode is not WriteMode.OVERWRITE and table.has_objects:
            raise InvalidInputError(
                f"{request.folder!r} has objects on {request.branch!r}, but no {self.metadata}: "
                "overwrite it, or choose another path"
            )

    def land(self, files: pa.Table, rows_for: NamedRows) -> TableWrite:
        """Stage files, and the named rows for the table's current state."""
        return with_branch_queue(
            self.context, self.request.branch, lambda: _land(self.context, self, files, rows_for)
        )

    def changed(self) -> TableChangedError:
        request = self.request
        table = f"{request.format.capitalize()} table {request.path!r}"
        return TableChangedError(
            f"nothing was staged: others committed concurrently to the {table} "
            f"on {request.branch!r}. Read it again, and repeat the change"
        )


Copied = Callable[..., AbstractContextManager[TableCopy]]
"""A function that yields a copy of a TableVersion for a WriteRequest."""


@contextmanager
def edit_table(
    context: Context,
    branch: str,
    path: str,
    table_format: str,
    once: str | Once | None = None,
    table: TableVersion | None = None,
    **settings: bool,
) -> Iterator[Any]:
    """Yield a table copy to edit and then stage. A repeated edit is discarded.

    After a concurrent commit to the table, raises TableChangedError and stages nothing. `table` is
    its current version, if known, and `settings` are for the format's copy.
    """
    request = WriteRequest(branch, path, table_format, WriteMode.OVERWRITE)
    edited = partial(_edited, request=request, table=table, settings=settings)
    if once is None:
        with edited(context, repeated=False) as location:
            yield location
        return
    once = Once.of(once)
    digest = digest_of(f"edit_{table_format}", branch, once, {"path": path})
    with once_scope(context, once, digest, RESULT) as scope:
        repeated = scope.earlier is not None
        with edited(context if repeated else scope.context, repeated=repeated) as location:
            yield location
        if not repeated:
            scope.finish(RESULT.encode(TableWrite(path)))


@contextmanager
def _edited(
    context: Context,
    *,
    request: WriteRequest,
    table: TableVersion | None,
    settings: Mapping[str, bool],
    repeated: bool,
) -> Iterator[EditLocation]:
    table, table_format = open_table_to_write(context, request, table), get_format(request.format)
    assert table_format.copied is not None
    with table_format.copied(context, request, table, **settings) as copy:
        if copy.is_new:
            raise InvalidInputError(
                f"{request.branch!r} has no {table_format.title} table at {request.path!r}: write "
                f"one with format {request.format!r}, or import it"
            )
        location = copy.edit_location()
        location.repeated, location.sql_name = repeated, copy.sql_name
        yield location
        if not repeated:
            copy.stage()


def write_table(
    context: Context, rows: DataFrame, request: WriteRequest, table: TableVersion | None = None
) -> TableWrite:
    """Write a DataFrame. In a table with metadata, it is repeated on the new state after changes.

    `table` is the current version of the table, if known.
    """
    copied = get_format(request.format).copied
    if copied is None:
        return write_files(context, rows, request, table)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            table = open_table_to_write(context, request, table)
            if not may_write(request, table):
                break
            check_owner(request, table)
            with copied(context, request, table) as copy:
                copy.check_new(table)
                copy.save(rows)
                return copy.stage()
        except TableChangedError:
            if attempt == MAX_ATTEMPTS:
                raise
            table = None
    return TableWrite(request.path)


NamedRows = Callable[[TableVersion], Mapping[str, pa.RecordBatch]]
"""A function from a table's current state to rows of FILE_SCHEMA by their names in the table.

It raises TableChangedError if the state does not permit them.
"""


@restarts()
def _land(context: Context, copy: TableCopy, files: pa.Table, rows_for: NamedRows) -> TableWrite:
    request, place = copy.request, copy.write.place
    fence = get_branch(context, request.branch).fence
    expected = context.refs.staging.seal(request.branch, Action.STAGE)
    table = open_table(context, request.branch, request.path)
    if not may_write(request, table):
        return TableWrite(request.path)
    rows = rows_for(table)
    batches = [staged_rows(each, request.folder, place) for each in files.to_batches()]
    for name, row in rows.items():
        batches.append(staged_rows(row, request.folder, place, pa.array([name])))
    if copy.is_new:
        copy.check_new(table)
        names = pa.concat_arrays([*files["name"].chunks, pa.array([*rows], pa.string())])
        batches.extend(removals(request, table, names))
    return stage_write(
        context, request, copy.write, files=files, batches=batches, expected=expected, fence=fence
    )
