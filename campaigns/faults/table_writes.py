"""Table writes without Spark: files are put where its writers would put them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest
from pyspark.sql.types import StructType

from sparklake import Repository
from sparklake.engine.choice import Runners
from sparklake.frames.tables import spark_sources
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
    """Write a table with the given files; each contains its name.

    When the files are in place, `then` runs. Then the write is staged.
    """
    request = WriteRequest(branch, path, "parquet", mode, partition_by)

    def save(context: Context, rows: Any, request: WriteRequest, place: str) -> Any:
        store = open_store(context.info.storage_namespace)
        store.put_many_if_absent({f"{place}/{each}": each.encode() for each in names})
        then()
        return lambda names: None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "save_rows", save)
        rows: Any = SimpleNamespace(schema=StructType())
        return writes.write_files(repo._context, rows, request)


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


def iceberg_append(document: dict[str, Any]) -> dict[str, bytes]:
    """Return the files of a table's first commit, with one data file."""
    location = document["location"]
    data = {
        "file_path": (100, "string", f"{location}/data/part-1"),
        "file_format": (101, "string", "PARQUET"),
        "record_count": (103, "long", 1),
        "file_size_in_bytes": (104, "long", 6),
    }
    values = {name: value for name, (_, _, value) in data.items()}
    entry = {"status": (0, "int", 1), "snapshot_id": (1, "long", 1)}
    manifest = _avro({**entry, "data_file": (2, _avro_type("r2", data), values)})
    manifests = _avro(
        {
            "manifest_path": (500, "string", f"{location}/metadata/m0.avro"),
            "manifest_length": (501, "long", len(manifest)),
            "partition_spec_id": (502, "int", 0),
            "content": (517, "int", 0),
            "sequence_number": (515, "long", 1),
        }
    )
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": 2,
        "manifest-list": f"{location}/metadata/snap-1.avro",
        "summary": {"operation": "append"},
    }
    document = {**document, "snapshots": [snapshot], "current-snapshot-id": 1}
    return {
        "data/part-1": b"part-1",
        "metadata/m0.avro": manifest,
        "metadata/snap-1.avro": manifests,
        "metadata/v2.metadata.json": json.dumps(document).encode(),
    }


def _avro(fields: Mapping[str, tuple[int, Any, Any]]) -> bytes:
    """Encode one record: the id, the type and the value of each field."""
    body = io.BytesIO()
    record = {name: value for name, (_, _, value) in fields.items()}
    fastavro.writer(body, _avro_type("r", fields), [record])
    return body.getvalue()


def _avro_type(name: str, fields: Mapping[str, tuple[int, Any, Any]]) -> dict[str, Any]:
    types = [
        {"name": each, "type": kind, "field-id": number}
        for each, (number, kind, _) in fields.items()
    ]
    return {"type": "record", "name": name, "fields": types}


def edit_delta(repo: Repository, branch: str, path: str, files: Mapping[str, bytes]) -> None:
    """Put files into the copy of a Delta table, as Spark would, and stage them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_sources, "check_delta", lambda session: None)
        patch.setattr(delta_writes, "check_native", lambda context: None)
        patch.setattr(Runners, "session", lambda runners: None)
        with repo.branch(branch).edit_delta(path) as location:
            place = f"data/{location.rpartition('/data/')[2]}"
            store = open_store(repo.info.storage_namespace)
            store.put_many_if_absent({f"{place}/{name}": body for name, body in files.items()})
