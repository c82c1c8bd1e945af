"""Delta tables on branches: copied into folders, changed there by other tools, staged again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparklake import Branch, Commit, Repository
from sparklake.testing.lakes import contents

TABLE = "tables/t"
LOG = f"{TABLE}/_delta_log/"

Change = Callable[[str], object]
"""Changes the table in a folder."""


def checked_out(repository: Repository, ref: str, folder: Path) -> Path:
    """Write the objects of a ref into a folder; return the table's place."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, body in contents(repository, ref).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    return folder / TABLE


def change_table(repository: Repository, branch: Branch, folder: Path, *changes: Change) -> Commit:
    """Apply changes to the table of a branch, and commit the result."""
    before = contents(repository, branch.name)
    table = checked_out(repository, branch.name, folder)
    for change in changes:
        change(str(table))
    files = (path for path in folder.rglob("*") if path.is_file())
    after = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    for path in before.keys() - after.keys():
        branch.delete(path)
    for path, body in after.items():
        if before.get(path) != body:
            branch.put(path, body)
    return branch.commit("changed the table")


def append(*ids: int, **columns: list[Any]) -> Change:
    """Append rows to a table with the Rust writer, or create the table."""

    def change(table: str) -> None:
        from deltalake import write_deltalake

        rows = pa.table({"id": pa.array(ids, pa.int64()), **columns})
        write_deltalake(table, rows, mode="append", schema_mode="merge" if columns else None)

    return change


def delete(predicate: str) -> Change:
    """Delete rows of a table with the Rust writer."""

    def change(table: str) -> None:
        from deltalake import DeltaTable

        DeltaTable(table).delete(predicate)

    return change


def optimize(table: str) -> None:
    from deltalake import DeltaTable

    DeltaTable(table).optimize.compact()


def vacuum(table: str) -> None:
    """Delete all files except those of the table's latest version."""
    from deltalake import DeltaTable

    DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def checkpoint(table: str) -> None:
    from deltalake import DeltaTable

    DeltaTable(table).create_checkpoint()


def clean_log(table: str) -> None:
    """Delete the commits below the last checkpoint, as writers do when these are old."""
    log = Path(table) / "_delta_log"
    latest = max(log.glob("*.checkpoint.parquet")).name[:20]
    for commit in log.glob("*.json"):
        if commit.name < latest:
            commit.unlink()


def compact_log(first: int, last: int) -> Change:
    """Write a log compaction file beside commits, which must only add files."""

    def change(table: str) -> None:
        log = Path(table) / "_delta_log"
        commits = (log / f"{version:020}.json" for version in range(first, last + 1))
        lines = (line for each in commits for line in each.read_text().splitlines(keepends=True))
        actions = (line for line in lines if "commitInfo" not in json.loads(line))
        (log / compacted_name(first, last)).write_text("".join(actions))

    return change


def compacted_name(first: int, last: int) -> str:
    return f"{first:020}.{last:020}.compacted.json"


def ids_of(repository: Repository, ref: str, folder: Path) -> list[int]:
    """Return the ids in the table of a ref, in order, as the Rust reader sees them."""
    from deltalake import DeltaTable

    table = DeltaTable(str(checked_out(repository, ref, folder)))
    return sorted(table.to_pyarrow_table().column("id").to_pylist())


def log_of(repository: Repository, ref: str) -> list[str]:
    """Return the file names in the table's log."""
    return [each.path.removeprefix(LOG) for each in repository.objects(ref, LOG)]
