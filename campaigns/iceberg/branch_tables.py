"""Iceberg tables on branches of a lake, written and read with pyiceberg."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from sparklake import Branch, Repository
from sparklake.metadata.iceberg.file_names import current_metadata, next_metadata

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

TABLE = "tables/t"


class PathCatalog(NoopCatalog):
    """Commits write the next metadata beside the table's files."""

    current: Table

    def load_table(self, identifier: Any) -> Table:
        return self.current

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        for each in requirements:
            each.validate(table.metadata)
        metadata = update_table_metadata(table.metadata, updates, False, table.metadata_location)
        location = self.put(metadata, table.metadata_location)
        return CommitTableResponse.model_validate(
            {"metadata": metadata, "metadata-location": location}
        )

    @staticmethod
    def put(metadata: TableMetadata, before: str | None) -> str:
        name = next_metadata(before and before.rpartition("/")[2], str(uuid.uuid4()))
        path = f"{metadata.location}/metadata/{name}"
        ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(path), overwrite=True)
        return path


def at(location: str) -> Table:
    """Open a table by the address of its metadata."""
    io = PyArrowFileIO()
    metadata = FromInputFile.table_metadata(io.new_input(location))
    catalog = PathCatalog("c")
    catalog.current = Table(("n", "t"), metadata, location, io, catalog)
    return catalog.current


class BranchTable:
    """One table on the branches of a repository. Its files are in one folder, and copied."""

    def __init__(
        self,
        repo: Repository,
        folder: Path,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        *,
        version: int = 2,
        is_numbered: bool = False,
        **properties: str,
    ) -> None:
        self.repo, self.folder = repo, folder
        (folder / "metadata").mkdir(parents=True)
        metadata = new_table_metadata(
            schema,
            spec,
            UNSORTED_SORT_ORDER,
            f"file://{folder}",
            {"format-version": str(version), **properties},
        )
        before = f"{folder}/metadata/v0.metadata.json" if is_numbered else None
        PathCatalog.put(metadata, before)
        self._stage(repo.branch("main"), set())
        repo.branch("main").commit("create")

    def commit(self, branch: Branch, change: Callable[[Table], object]) -> str:
        """Apply a change on a branch, and commit the new files."""
        self.stage(branch, change)
        return branch.commit("change", allow_empty=True).id

    def stage(self, branch: Branch, change: Callable[[Table], object]) -> None:
        """Apply a change on a branch, and stage the new files."""
        before = self._files()
        change(self.table(branch.name))
        self._stage(branch, before)

    def table(self, ref: str) -> Table:
        name = self.metadata_name(ref)
        address = self.repo.stat(ref, f"{TABLE}/metadata/{name}").address
        table = at(f"file://{address.removeprefix('file://')}")
        # The name of the next metadata follows from it.
        table.metadata_location = f"{self.folder}/metadata/{name}"
        return table

    def metadata_name(self, ref: str) -> str:
        folder = f"{TABLE}/metadata/"
        keys = (each.path.removeprefix(folder) for each in self.repo.objects(ref, folder))
        name = current_metadata(keys)
        assert name is not None
        return name

    def rows(self, ref: str) -> list[tuple[Any, ...]]:
        rows = self.table(ref).scan().to_arrow().to_pylist()
        return sorted((tuple(each.values()) for each in rows), key=repr)

    def _files(self) -> set[Path]:
        return {each for each in self.folder.rglob("*") if each.is_file()}

    def _stage(self, branch: Branch, before: set[Path]) -> None:
        new = self._files() - before
        # A numbered version of another branch is replaced.
        names = [each.relative_to(self.folder) for each in new]
        branch.put_many({f"{TABLE}/{name}": (self.folder / name).read_bytes() for name in names})
        for each in self.folder.glob("metadata/v*.metadata.json"):
            each.unlink()
