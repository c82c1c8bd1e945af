"""The task body of listings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sparklake.graveler.algebra import ChangeCounts, apply
from sparklake.rows.objects import object_batch
from sparklake.udfs.streams import open_tasks
from sparklake.udfs.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa


def list_body(workspace: Workspace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield OBJECT_SCHEMA. The sides are base, then staged layers, the newest first."""
    for base, *layers in open_tasks(workspace, batches):
        for block in apply(layers, base, ChangeCounts()):
            yield object_batch(block, workspace.storage_namespace)
