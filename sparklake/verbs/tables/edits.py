"""Edits of tables with metadata: an engine commits to a private copy, which is staged."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

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
from sparklake.verbs.tables.version import TableVersion, open_table
from sparklake.verbs.tables.write import (
    check_owner,
    may_write,
    open_table_to_write,
    removals,
    stage_write,
    staged_rows,
)
from sparklake.verbs.tables.write_request import RESULT, TableWrite, WriteMode, WriteRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_ATTEMPTS = 5
"""The maximum number of attempts of a write with concurrent changes."""

_STAGED = "_staged/"


class EditLocation(str):
    """The name of a table copy to edit. `repeated` reports whether the edit was already staged."""

    __slots__ = ("repeated",)

    repeated: bool


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


Copy = TypeVar("Copy", bound=TableCopy)
Copied = Callable[[Context, WriteRequest, TableVersion], AbstractContextManager[Copy]]
"""A function that yields a copy of a table for a write."""


@contextmanager
def edit_table(
    context: Context, request: WriteRequest, once: Once | None, copied: Copied[Copy], remedy: str
) -> Iterator[tuple[Copy, bool]]:
    """Yield a copy to edit and then stage, and whether the edit is repeated, and so discarded."""
    edited = partial(_edited, request=request, copied=copied, remedy=remedy)
    if once is None:
        with edited(context, repeated=False) as copy:
            yield copy, False
        return
    digest = digest_of(f"edit_{request.format}", request.branch, once, {"path": request.path})
    with once_scope(context, once, digest, RESULT) as scope:
        repeated = scope.earlier is not None
        with edited(context if repeated else scope.context, repeated=repeated) as copy:
            yield copy, repeated
        if not repeated:
            scope.finish(RESULT.encode(TableWrite(request.path)))


@contextmanager
def _edited(
    context: Context, *, request: WriteRequest, copied: Copied[Copy], remedy: str, repeated: bool
) -> Iterator[Copy]:
    table = open_table_to_write(context, request)
    with copied(context, request, table) as copy:
        if copy.is_new:
            raise InvalidInputError(
                f"{request.branch!r} has no {request.format.capitalize()} table at "
                f"{request.path!r}: {remedy}"
            )
        yield copy
        if not repeated:
            copy.stage()


def write_rows(
    context: Context, rows: DataFrame, request: WriteRequest, copied: Copied[Copy]
) -> TableWrite:
    """Write a DataFrame to a copy, and stage it; repeat it on the new state after changes."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            table = open_table_to_write(context, request)
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
