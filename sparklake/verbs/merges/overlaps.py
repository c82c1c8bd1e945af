"""The rows that make deletion vectors of both sides conflict."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.errors import CorruptFileError, SparklakeError
from sparklake.graveler.ids import MetaRangeId
from sparklake.rows.overlaps import RowOverlap
from sparklake.stores.objects.content_file import ContentReader
from sparklake.verbs.base.content import ObjectContent, ReadAhead
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.read import find_in_tree
from sparklake.verbs.tables.unions import Refused

MAX_POSITIONS = 1_000
"""The maximum number of reported positions of a file."""

_MAX_FILES = 100


def row_overlaps(
    context: Context, dest: MetaRangeId, refused: Iterable[Refused]
) -> list[RowOverlap]:
    """Return the overlaps of refused unions, at most 100 files, which are live in dest."""
    overlaps = []
    rows = ((union.table, *each) for union in refused for each in union.overlaps.items())
    for table, path, positions in islice(rows, _MAX_FILES):
        file = find_in_tree(context, dest, table.folder + path.encode())
        if file is not None:
            first = tuple(positions[:MAX_POSITIONS])
            overlaps.append(RowOverlap(table.name, file, first, len(positions)))
    return overlaps


def overlapping_rows(overlaps: Iterable[RowOverlap], limit: int) -> Iterator[Mapping[str, Any]]:
    """Yield the first rows, reading only their row groups."""
    for overlap in overlaps:
        columns = {"table": overlap.table, "path": overlap.file.path}
        for position, row in islice(_rows(overlap), limit):
            limit -= 1
            yield {**columns, "position": position, "row": row}


def _rows(overlap: RowOverlap) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows with the names of columns in the file, which lacks partition columns."""
    content = ReadAhead(ObjectContent(overlap.file, "the merge"))
    reader = io.BufferedReader(ContentReader(content, overlap.file.path))
    try:
        with pq.ParquetFile(reader, coerce_int96_timestamp_unit="us") as file:
            start = 0
            for at in range(file.num_row_groups):
                end = start + file.metadata.row_group(at).num_rows
                inside = [each for each in overlap.positions if start <= each < end]
                if inside:
                    taken = file.read_row_group(at, use_threads=False).take(
                        pa.array([each - start for each in inside], pa.int64())
                    )
                    yield from zip(inside, taken.to_pylist(), strict=True)
                start = end
    except SparklakeError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(
            f"the conflicting rows of {overlap.file.path!r} cannot be read ({error})"
        ) from error
