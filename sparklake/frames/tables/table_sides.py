"""The differing parts of a table at two refs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sparklake.frames.tables.partitions import PartitionColumns

Partition = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class SideFile:
    """A data file: its URI for Spark, its path in the repository, its partition, and its bytes."""

    uri: str
    path: str
    partition: Partition
    size: int


@dataclass(frozen=True, slots=True)
class TableSide:
    """The differing part of a table at one ref.

    `paths` are the repository paths of the differing files. A table with its own log has a `view`,
    a Delta table of these files; other tables have `files`. `shared` is a file present on both
    sides, if any. It may have columns missing in the other files. `partitions` are the partition
    columns of all files of the table. `bytes` is the size of the differing files.
    """

    paths: tuple[str, ...] = ()
    files: tuple[SideFile, ...] = ()
    shared: SideFile | None = None
    partitions: PartitionColumns = field(default_factory=PartitionColumns)
    view: str | None = None
    bytes: int = 0

    @staticmethod
    def of(
        files: Sequence[SideFile], shared: Iterable[SideFile], partitions: PartitionColumns
    ) -> TableSide:
        paths, size = tuple(each.path for each in files), sum(each.size for each in files)
        return TableSide(paths, tuple(files), next(iter(shared), None), partitions, bytes=size)

    @property
    def is_there(self) -> bool:
        return bool(self.files or self.shared or self.view)
