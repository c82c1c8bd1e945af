"""Edits of tables with metadata: an engine commits to a private copy, which is staged."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

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
from sparklake.verbs.tables.version import TableVersion, open_table, table_prefix
from sparklake.verbs.tables.write import (
    check_no_other_table,
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


L = TypeVar("L", bound=EditLocation, covariant=True)


class Edit(Protocol[L]):
    """An edit of a table, which stages its changes unless it is `repeated`."""

    def __call__(self, context: Context, *, repeated: bool) -> AbstractContextManager[L]:
        """Yield a copy to edit."""


@contextmanager
def edit_table(
    context: Context, verb: str, branch: str, path: str, once: Once | None, edit: Edit[L]
) -> Iterator[L]:
    """Run an edit. A repeated one with an idempotency key is discarded."""
    if once is None:
        with edit(context, repeated=False) as location:
            location.repeated = False
            yield location
        return
    digest = digest_of(verb, branch, once, {"path": path})
    with once_scope(context, once, digest, RESULT) as scope:
        repeated = scope.earlier is not None
        with edit(context if repeated else scope.context, repeated=repeated) as location:
            location.repeated = repeated
            yield location
        if not repeated:
            scope.finish(RESULT.encode(TableWrite(path, 0, 0)))


def edit_request(branch: str, path: str, table_format: str) -> WriteRequest:
    return WriteRequest(
        branch=branch,
        path=path,
        folder=table_prefix(path),
        format=table_format,
        mode=WriteMode.OVERWRITE,
        partition_by=(),
        options={},
    )


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
        check_no_other_table(request, table)
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


Copied = Callable[[Context, WriteRequest, TableVersion], AbstractContextManager[TableCopy]]
"""A function that yields a copy of a table for a write."""


def write_rows(
    context: Context, rows: DataFrame, request: WriteRequest, copied: Copied
) -> TableWrite:
    """Write a DataFrame to a copy, and stage it; repeat it on the new state after changes."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            table = open_table_to_write(context, request)
            if not may_write(request, table):
                break
            with copied(context, request, table) as copy:
                copy.check_new(table)
                copy.save(rows)
                return copy.stage()
        except TableChangedError:
            if attempt == MAX_ATTEMPTS:
                raise
    return TableWrite(request.path, 0, 0)


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
        return TableWrite(request.path, 0, 0)
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
