"""Lakes for tests, their contents, and fingerprints to compare a lake at two moments."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklake import Branch, Commit, Engine, Lake, Repository, SparklakeError
from sparklake.engine.choice import Runners
from sparklake.graveler.ports import LayerKind
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
    """Open a lake with refs in a Postgres, which runs everything in this process."""
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


def stage_sizes(branch: Branch, sizes: Mapping[str, int | None]) -> None:
    """Stage objects without bytes as a run; None deletes."""
    rows = [
        {"path": path, "deleted": True}
        if size is None
        else {"path": path, "size": size, "checksum": f"s{size}", "address": f"data/{path}"}
        for path, size in sizes.items()
    ]
    branch.stage(stage_table(rows))


def put_sizes(branch: Branch, sizes: Mapping[str, int | None]) -> None:
    """Put objects of given sizes one by one, as rows; None deletes."""
    put_all(branch, {path: None if size is None else b"x" * size for path, size in sizes.items()})


def contents(repository: Repository, ref: str) -> dict[str, bytes]:
    """Read every object of a ref from its address."""
    found = {}
    for each in repository.objects(ref):
        store, key = open_object(each.address)
        found[each.path] = store.get(key)
    return found


def paths(repository: Repository, ref: str, prefix: str = "") -> list[str]:
    return [each.path for each in repository.objects(ref, prefix)]


def namespace_of(repository: Repository) -> Path:
    return Path(repository.info.storage_namespace.removeprefix("file://"))


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file below a folder, including temporary files."""
    stats = {path: path.lstat() for path in folder.rglob("*")}
    return {
        str(path.relative_to(folder)): (stat.st_size, stat.st_mtime_ns)
        for path, stat in stats.items()
        if not path.is_dir()
    }


def refs_of(repository: Repository) -> dict[str, Any]:
    """Return everything about a repository in the ref store, including staged rows.

    Whether a layer is sealed is left out: no user sees it, and a refused purge has sealed all.
    """
    refs = repository._context.refs
    states = repository.branch_states(hidden=True)
    layers = [layer for state in states for layer in state.layers if layer.kind is LayerKind.ROWS]
    return {
        "branches": [
            (
                each.name,
                each.commit_id,
                [replace(layer, sealed=False) for layer in each.layers],
                each.hidden,
                each.expires,
            )
            for each in states
        ],
        "tags": repository.tags(),
        "operations": list(repository.operations(1_000_000)),
        "rows": {layer.id: list(refs.staging.rows(layer.id)) for layer in layers},
        "commits": [each.id for each in refs.commits.find_by_prefix("", 1_000_000)],
    }


def fingerprint(lake: Lake, *folders: Path, names: Container[str] | None = None) -> dict[str, Any]:
    """Return everything that a verb could change: refs, and the files below some folders.

    With `names`, only these repositories are read, for lakes that many tests share.
    """
    found = lake.repositories()
    repositories = [each for each in found if names is None or each.name in names]
    return {
        "repositories": [each.info for each in found],
        "refs": {each.name: refs_of(each) for each in repositories},
        "files": [
            files_below(each) for each in (*folders, *(namespace_of(each) for each in repositories))
        ],
    }


@contextmanager
def refused(
    lake: Lake, error: type[SparklakeError], words: str, *folders: Path
) -> Iterator[pytest.ExceptionInfo[SparklakeError]]:
    """Check that the block raises exactly this error class and changes nothing."""
    before = fingerprint(lake, *folders)
    with pytest.raises(error, match=words) as raised:
        yield raised
    assert type(raised.value) is error
    assert fingerprint(lake, *folders) == before


def assert_healthy(repository: Repository) -> None:
    """Check that all refs, tables and objects of a repository are as they should be."""
    report = repository.check("content")
    assert report.faults == (), report.faults
