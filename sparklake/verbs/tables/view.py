"""Views: Delta tables of a version's own files, named by a hash of their inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from sparklake._scratch import scratch_folder
from sparklake.graveler.chunks import sliced
from sparklake.graveler.ports import ObjectStore
from sparklake.layout import VIEWS_FOLDER
from sparklake.metadata.delta.file_names import (
    LAST_CHECKPOINT,
    checkpoint_key,
    checksum_key,
    log_key,
)
from sparklake.metadata.delta.table_files import plain_files
from sparklake.metadata.delta.view_log import (
    CHECKPOINT_SCHEMA,
    TableShape,
    add_batches,
    checkpointed_commit,
    last_checkpoint,
    shape_batch,
    version_checksum,
)
from sparklake.stores.objects.addresses import spark_uri, spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.version import TableVersion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_FORM = 3
"""The version of the layout, as a part of a view's name."""

_ROW_GROUP = 50_000
"""The approximate number of rows in a row group. Readers spread row groups over their cores."""


@dataclass(frozen=True, slots=True)
class View:
    store: ObjectStore
    id: str
    version: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options to load it with."""

    @property
    def uri(self) -> str:
        return spark_uri(f"{self.store.uri}/{self.folder}")

    @property
    def folder(self) -> str:
        return f"{VIEWS_FOLDER}{self.id}"

    @property
    def exists(self) -> bool:
        return self.store.find(f"{self.folder}/{log_key(self.version)}") is not None

    def put(self, files: Mapping[str, Path | bytes]) -> None:
        """Put the log files. The commit comes last and completes the view."""
        last = f"{self.folder}/{log_key(self.version)}"
        paths = {f"{self.folder}/{key}": each for key, each in files.items()}
        local = {key: each for key, each in paths.items() if isinstance(each, Path)}
        self.store.put_files_if_absent(local)
        bodies = {key: each for key, each in paths.items() if isinstance(each, bytes)}
        commit = bodies.pop(last)
        self.store.put_many_if_absent(bodies)
        self.store.put_if_absent(last, commit)


def view_of(context: Context, table: TableVersion, version: int, *terms: Any) -> View:
    """Return a table's view, named by the ranges and rows of its objects.

    After a tree sweep, a range id may stand for different objects, so view names change.
    """
    inputs = [_FORM, table.folder, list(table.objects.plan.pieces), version, *terms]
    if context.workspace.tree_sweeps:
        inputs.append(context.workspace.tree_sweeps)
    return View(context.store, hashlib.sha256(msgspec.msgpack.encode(inputs)).hexdigest(), version)


def write_view(
    view: View, table: TableVersion, shape: TableShape, shared: NDArray[np.int64], size: int
) -> None:
    """Write a log for plain files of `size` bytes, streamed from their listing."""
    adds = add_batches(plain_files(table.objects.batches(), table.folder, spark_uris), shared)
    head = shape_batch(shape)
    with scratch_folder() as scratch:
        checkpoint = scratch / "checkpoint.parquet"
        actions = write_checkpoint(checkpoint, CHECKPOINT_SCHEMA, chain([head], adds))
        view.put(
            {
                checkpoint_key(view.version): checkpoint,
                LAST_CHECKPOINT: last_checkpoint(view.version, actions),
                checksum_key(view.version): version_checksum(shape, actions - len(head), size),
                log_key(view.version): checkpointed_commit(),
            }
        )


def write_checkpoint(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write actions to a file, and return their number."""
    size = 0
    with pq.ParquetWriter(path, schema) as writer:
        for group in sliced(batches, _ROW_GROUP, len):
            table = pa.Table.from_batches(group, schema)
            writer.write_table(table)
            size += table.num_rows
    return size
