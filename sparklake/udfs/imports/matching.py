"""The task body that compares imported records with the present ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from sparklake.graveler.blocks.align import aligned
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.edit import edited
from sparklake.rows.results import encode_results
from sparklake.strategies.content_types import same_content
from sparklake.udfs.streams import open_sides
from sparklake.udfs.workspace import Workspace, decode_tasks, open_sink
from sparklake.udfs.write_ranges import written_pieces

if TYPE_CHECKING:
    import pyarrow as pa


def matched_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write imported records, with the present record where both have the same content.

    The sides are present, imported.
    """
    for task in decode_tasks(batches):
        sink = open_sink(workspace)
        present, imported = open_sides(sink.store, task.pieces)
        pairs = aligned(present, imported)
        blocks = (_with_present(there, block) for there, block in pairs if len(block))
        results = written_pieces(sink, task, blocks)
        sink.put()
        yield encode_results(results, sink.replaced)


def _with_present(present: Block, imported: Block) -> Block:
    """Return imported records, with present ones of the same content in place of theirs."""
    at, found = present.find(imported.keys)
    rows = np.flatnonzero(found)
    rows = rows[(present.ids[at[rows]] != imported.ids[rows]).any(axis=1)]
    if not len(rows):
        return imported
    rows = rows[same_content(present.take(at[rows]), imported.take(rows))]
    dropped = np.zeros(len(imported), bool)
    dropped[rows] = True
    return edited(imported, dropped, present.take(at[rows]))
