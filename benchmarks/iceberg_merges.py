"""The cost of a merge of a large Iceberg table: python -m benchmarks.iceberg_merges -n 100000.

Each side replaced some files of the table in one snapshot. The data files are keys without content,
because a merge reads metadata only.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

import sparklake
from benchmarks import report
from sparklake import Branch, Repository
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base import content
from sparklake.verbs.iceberg import tree_table
from sparklake.verbs.tables import metadata_folders

if TYPE_CHECKING:
    from pyiceberg.table import Table

TABLE = "tables/t"
_SCHEMA = Schema(NestedField(1, "id", LongType()))
_BYTES = 1_000


class LargeTable:
    """A table on branches, with `manifests` of equally many files. pyiceberg writes it."""

    def __init__(self, repo: Repository, folder: Path, files: int, manifests: int) -> None:
        self.repo, self.folder = repo, folder / "t"
        uri = f"sqlite:///{folder}/catalog.db"
        self._catalog = SqlCatalog("c", uri=uri, warehouse=folder.as_uri())
        self._catalog.create_namespace("n")
        place = f"file://{self.folder}"
        table = self._catalog.create_table(("n", "main"), _SCHEMA, location=place)
        names = [f"{at:07}" for at in range(files)]
        for at in range(manifests):
            some = names[at * files // manifests : (at + 1) * files // manifests]
            with table.transaction() as change, change.update_snapshot().fast_append() as append:
                for each in some:
                    append.append_data_file(self._file(each))
        self._stage(repo.branch("main"), names)
        repo.create_branch("dev", "main")
        self._catalog.register_table(("n", "dev"), table.metadata_location)

    def replace(self, branch: Branch, old: Sequence[int]) -> None:
        """Replace files by their numbers in one snapshot, and commit."""
        table: Table = self._catalog.load_table(("n", branch.name))
        new = [f"{branch.name}{at:07}" for at in old]
        with table.transaction() as change, change.update_snapshot().overwrite() as overwrite:
            for at, name in zip(old, new, strict=True):
                overwrite.delete_data_file(self._file(f"{at:07}"))
                overwrite.append_data_file(self._file(name))
        self._stage(branch, new)

    def _file(self, name: str) -> DataFile:
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{self.folder}/data/{name}.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=_BYTES,
            lower_bounds={1: b"\0" * 8},
            upper_bounds={1: b"\1" * 8},
        )
        file.spec_id = 0
        return file

    def _stage(self, branch: Branch, data: Sequence[str]) -> None:
        rows = [
            {
                "path": f"{TABLE}/data/{each}.parquet",
                "size": _BYTES,
                "address": f"file://{self.folder}/data/{each}.parquet",
                "checksum": "0" * 32,
            }
            for each in data
        ]
        branch.stage(pa.Table.from_pylist(rows))
        known = {each.path for each in self.repo.objects(branch.name, f"{TABLE}/metadata/")}
        paths = {f"{TABLE}/metadata/{each.name}": each for each in self.folder.glob("metadata/*")}
        new = {
            path: each.read_bytes()
            for path, each in paths.items()
            if path not in known and self._is_of(branch, path)
        }
        branch.put_many(new)
        branch.commit("change")

    def _is_of(self, branch: Branch, key: str) -> bool:
        """Return whether metadata is that of a branch, and not only of the other one."""
        if not key.endswith(".metadata.json"):
            return True
        table = self._catalog.load_table(("n", branch.name))
        log = [each.metadata_file for each in table.metadata.metadata_log]
        return any(
            each.endswith(key.rpartition("/")[2]) for each in (table.metadata_location, *log)
        )


@contextmanager
def noted_reads() -> Iterator[list[str]]:
    """Collect the paths of the table's metadata that are read."""
    paths: list[str] = []

    def read(info: ObjectInfo, *rest: Any) -> bytes:
        paths.append(info.path)
        return content.read_body(info, *rest)

    with (
        mock.patch.object(tree_table, "read_body", read),
        mock.patch.object(metadata_folders, "read_body", read),
    ):
        yield paths


def merged(table: LargeTable, changes: int) -> dict[str, Any]:
    """Replace files on both sides, merge, and return the figures of the merge."""
    total = sum(1 for _ in table.repo.objects("main", f"{TABLE}/data/"))
    table.replace(table.repo.branch("dev"), range(changes))
    table.replace(table.repo.branch("main"), range(total - changes, total))
    with noted_reads() as paths:
        start, cpu = time.perf_counter(), time.process_time()
        table.repo.merge("dev", "main")
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "changed files a side": changes,
        "wall, s": round(seconds, 2),
        "CPU, s": round(cpu, 2),
        "metadata files read": len(paths),
        "of these, manifests": sum("-m" in each for each in paths),
    }


def main() -> None:
    """Measure, and write the table."""
    parser = report.new_parser(__doc__, "iceberg-merges")
    parser.add_argument("-n", type=int, default=100_000, help="files")
    parser.add_argument("--manifests", type=int, default=100, help="manifests of the table")
    parser.add_argument("--changes", type=int, default=100, help="changed files of each side")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iceberg-merges-", dir=args.folder) as folder:
        rows = list(_rows(Path(folder), args))
    notes = [
        f"An Iceberg table of {args.n:,} files in {args.manifests} manifests, in a local "
        f"directory. Each side replaced {args.changes} files in one snapshot. The merge needs no "
        "Spark."
    ]
    report.write(args, "Merges of a large Iceberg table", notes, rows)


def _rows(folder: Path, args: Namespace) -> Iterator[dict[str, Any]]:
    with sparklake.connect(home=folder / "home", engine="local") as lake:
        repo = lake.create_repository("lake", str(folder / "lake"))
        yield merged(LargeTable(repo, folder, args.n, args.manifests), args.changes)


if __name__ == "__main__":
    main()
