"""Table writes without Spark: files are put where its writers would put them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from sparklake import Repository
from sparklake.engine.choice import Runners
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.delta import write as delta_writes
from sparklake.verbs.iceberg import write as iceberg_writes
from sparklake.verbs.tables import write as writes
from sparklake.verbs.tables.write_request import TableWrite, WriteMode, WriteRequest


def write(
    repo: Repository,
    branch: str,
    path: str,
    names: Iterable[str],
    mode: WriteMode,
    partition_by: tuple[str, ...] = (),
    then: Callable[[], object] = lambda: None,
) -> TableWrite:
    """Write a table of some files, each with its name as content.

    When the files are in place, `then` runs. Then the write is staged.
    """
    request = WriteRequest(branch, path, f"{path}/", "parquet", mode, partition_by, {})

    def save(context: Context, rows: Any, request: WriteRequest, place: str) -> Any:
        store = open_store(context.info.storage_namespace)
        store.put_many_if_absent({f"{place}/{each}": each.encode() for each in names})
        then()
        return lambda names: None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "save_rows", save)
        nothing: Any = None
        return writes.write_table(repo._context, nothing, request)


@contextmanager
def edit_iceberg(
    repo: Repository, branch: str, path: str, once: str | None = None
) -> Iterator[tuple[str, str]]:
    """Edit an Iceberg table without Spark; yield the place of the copy, and its name in SQL."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iceberg_writes, "check_native", lambda context: None)
        patch.setattr(iceberg_writes, "session_catalog", lambda *_: "catalog")
        with repo.branch(branch).edit_iceberg(path, once=once) as name:
            yield f"data/{name.split('`')[1]}", name


def edit_delta(repo: Repository, branch: str, path: str, files: Mapping[str, bytes]) -> None:
    """Put files into the copy of a Delta table, as Spark would, and stage them."""
    no_spark = SimpleNamespace(check_delta=lambda session: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sparklake.frames.tables.spark_sources", no_spark)
        patch.setattr(delta_writes, "check_native", lambda context: None)
        patch.setattr(Runners, "session", lambda runners: None)
        with delta_writes.edit_delta(repo._context, branch, path) as location:
            place = f"data/{location.rpartition('/data/')[2]}"
            store = open_store(repo.info.storage_namespace)
            store.put_many_if_absent({f"{place}/{name}": body for name, body in files.items()})
