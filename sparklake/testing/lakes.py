"""In-memory and Postgres lakes, and their contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparklake import Branch, Commit, Engine, Lake, Repository
from sparklake.engine.choice import Runners
from sparklake.rows.objects import STAGE_SCHEMA
from sparklake.stores.objects import open_object
from sparklake.stores.postgres import connect_ref_store
from sparklake.testing.memory import MemoryRefStore

TESTER = "tester"


def memory_lake() -> Lake:
    """Open an empty lake with refs in memory."""
    return Lake(MemoryRefStore(), Runners(Engine.LOCAL), TESTER)


@contextmanager
def postgres_lake(dsn: str) -> Iterator[Lake]:
    """Open a lake with refs in Postgres and all work in this process."""
    with Lake(connect_ref_store(dsn), Runners(Engine.LOCAL), TESTER) as lake:
        yield lake


def put_all(branch: Branch, contents: Mapping[str, bytes | None]) -> None:
    """Put objects one by one; None deletes."""
    for path, body in contents.items():
        if body is None:
            branch.delete(path)
        else:
            branch.put(path, body)


def commit_all(branch: Branch, contents: Mapping[str, bytes | None], message: str) -> Commit:
    """Put objects one by one and commit them."""
    put_all(branch, contents)
    return branch.commit(message)


def stage_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return a table to stage, with only the columns of the rows."""
    names = {name for row in rows for name in row}
    schema = pa.schema([each for each in STAGE_SCHEMA if each.name in names])
    return pa.Table.from_pylist(rows, schema=schema)


def contents(repository: Repository, ref: str) -> dict[str, bytes]:
    """Read every object of a ref from its address."""
    bodies = {}
    for each in repository.objects(ref):
        store, key = open_object(each.address)
        bodies[each.path] = store.get(key)
    return bodies


def namespace_of(repository: Repository) -> Path:
    return Path(repository.info.storage_namespace.partition("://")[2])


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file below a folder, including temporary files."""
    stats = {path: path.lstat() for path in folder.rglob("*")}
    return {
        str(path.relative_to(folder)): (stat.st_size, stat.st_mtime_ns)
        for path, stat in stats.items()
        if not path.is_dir()
    }
