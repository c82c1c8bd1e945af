"""The live data files of a snapshot, with their deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.metadata.iceberg.manifests import Content, TableFile
from sparklake.metadata.vectors.bitmaps import MAX_POSITIONS, Positions
from sparklake.metadata.vectors.frames import FRAME_BYTES

_PATH, _POSITION = "file_path", "pos"
_MAX_VECTOR_BYTES = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file and its deleted rows: a deletion vector, or those of position deletes."""

    file: TableFile
    vector: TableFile | None = None
    rows: Positions | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """The content of a live file, equal in two snapshots that share it."""
        vector, rows = self.vector, self.rows
        place = None if vector is None else (vector.path, vector.offset)
        return (self.file.path, place, None if rows is None else rows.tobytes())


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The files of a snapshot. `vectors` are deletion vectors by the path of their data file."""

    data: Mapping[str, TableFile]
    vectors: Mapping[str, TableFile]
    position_deletes: Sequence[TableFile]

    @staticmethod
    def of(files: Iterable[TableFile]) -> LiveFiles:
        """Sort the files of a snapshot by their content.

        Raises:
            InvalidInputError: A file cannot be read as Parquet, or deletes rows by equality.
            CorruptFileError: The metadata contradicts itself.
        """
        data: dict[str, TableFile] = {}
        vectors: dict[str, TableFile] = {}
        deletes: list[TableFile] = []
        for each in files:
            if each.content is Content.EQUALITY_DELETES:
                raise InvalidInputError(
                    f"it has equality deletes ({each.path}), as Flink writes them, which need "
                    "Iceberg's own reader. Compact the table with rewrite_data_files first"
                )
            if each.is_vector:
                _add(vectors, _target(each), each)
            elif each.format != "parquet":
                raise InvalidInputError(
                    f"it has files of the format {each.format!r} ({each.path}), and sparklake "
                    "reads Parquet. Rewrite them with write.format.default=parquet"
                )
            elif each.content is Content.DATA:
                _add(data, each.path, each)
            else:
                deletes.append(each)
        _check_vectors(data, vectors)
        return LiveFiles(data, vectors, deletes)

    def with_deletes(self, deletes: Iterable[tuple[TableFile, pa.Table]]) -> Iterator[LiveFile]:
        """Yield the data files, given the pairs in each position delete file."""
        rows = self._deleted_rows(deletes)
        for path, file in self.data.items():
            yield LiveFile(file, self.vectors.get(path), rows.get(path))

    def _deleted_rows(self, deletes: Iterable[tuple[TableFile, pa.Table]]) -> dict[str, Positions]:
        """Return the deleted positions by data file.

        A vector contains all earlier position deletes of its file.
        """
        parts: dict[str, list[Positions]] = {}
        for delete, rows in deletes:
            groups = rows.group_by(_PATH).aggregate([(_POSITION, "list")])
            columns = (groups.column(each) for each in (_PATH, f"{_POSITION}_list"))
            for path, rows_of_file in zip(*columns, strict=True):
                file = self.data.get(path.as_py())
                if file is None or file.path in self.vectors:
                    continue
                if file.sequence_number > delete.sequence_number:
                    continue
                _check_partition(file, delete)
                numbers = rows_of_file.values.to_numpy()
                if int(numbers.min()) < 0 or int(numbers.max()) >= file.records:
                    raise CorruptFileError(f"{delete.path} deletes a row that {file.path} lacks")
                parts.setdefault(file.path, []).append(numbers.astype(np.uint64))
        return {path: np.unique(np.concatenate(each)) for path, each in parts.items()}


def read_position_deletes(body: bytes, file: TableFile) -> pa.Table:
    """Read the pairs of path and position in a position delete file.

    Raises:
        CorruptFileError: It is not such a Parquet file, or is too large.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(body)) as parquet:
            if parquet.metadata.num_rows > MAX_POSITIONS:
                raise CorruptFileError(f"{file.path} deletes more than {MAX_POSITIONS:,} rows")
            rows = parquet.read(columns=[_PATH, _POSITION])
        schema = pa.schema({_PATH: pa.string(), _POSITION: pa.int64()})
        pairs = rows.select([_PATH, _POSITION]).cast(schema)
    except (pa.ArrowException, KeyError, OSError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"{file.path} is not a position delete file: {error}") from error
    if pairs.num_rows != file.records or any(each.null_count for each in pairs.columns):
        raise CorruptFileError(f"{file.path} does not have the rows that its manifest lists")
    return pairs


def with_moved_paths(body: bytes, path: str, place: Callable[[str], str]) -> tuple[bytes, str, str]:
    """Return a position delete file with each path replaced, and the first and the last path.

    Raises:
        CorruptFileError: It is not such a Parquet file, or has no rows.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(body)) as parquet:
            rows = parquet.read()
        column = rows.column(_PATH).cast(pa.string()).combine_chunks().dictionary_encode()
        places = pa.array([place(each) for each in column.dictionary.to_pylist()], pa.string())
        paths = places.take(column.indices).cast(rows.schema.field(_PATH).type)
        columns = {**dict(zip(rows.schema.names, rows.columns, strict=True)), _PATH: paths}
        # Only the schema has the field ids. The file is sorted by path, and so is the new one.
        order = [(each, "ascending") for each in (_PATH, _POSITION)]
        moved = pa.table(columns, rows.schema).sort_by(order)
        sink = pa.BufferOutputStream()
        pq.write_table(moved, sink, store_schema=False)
        first, last = (moved.column(_PATH)[at].as_py() for at in (0, -1))
    except (pa.ArrowException, IndexError, KeyError, OSError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"{path} is not a position delete file: {error}") from error
    return sink.getvalue().to_pybytes(), first, last


def vector_bytes(vector: TableFile) -> int:
    """Return the size of a vector in its Puffin file, without its frame."""
    return (vector.length or 0) - FRAME_BYTES


def _add(files: dict[str, TableFile], path: str, file: TableFile) -> None:
    if path in files:
        raise CorruptFileError(f"two live manifest entries exist for {path}")
    files[path] = file


def _target(vector: TableFile) -> str:
    offset, length = vector.offset, vector.length
    if vector.target is None or offset is None or length is None:
        raise CorruptFileError(f"the deletion vector {vector.path} has no data file or place")
    if offset < 0 or not FRAME_BYTES < length <= _MAX_VECTOR_BYTES:
        raise CorruptFileError(f"the deletion vector {vector.path} has a wrong place")
    if offset + length > vector.size:
        raise CorruptFileError(f"the deletion vector {vector.path} exceeds its file")
    return vector.target


def _check_vectors(data: Mapping[str, TableFile], vectors: Mapping[str, TableFile]) -> None:
    for path, vector in vectors.items():
        file = data.get(path)
        if file is None:
            continue
        _check_partition(file, vector)
        if file.sequence_number > vector.sequence_number or vector.records > file.records:
            raise CorruptFileError(f"the deletion vector of {path} does not fit to the file")


def _check_partition(file: TableFile, delete: TableFile) -> None:
    """Reject deletes in another partition: readers disagree whether they apply."""
    if (file.spec_id, file.partition) != (delete.spec_id, delete.partition):
        raise CorruptFileError(f"{delete.path} deletes rows of {file.path} in another partition")
