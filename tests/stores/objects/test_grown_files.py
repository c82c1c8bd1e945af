"""Files in buckets far beyond their expected size, and how much of them is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.faults.faulty_store import FaultyStore, faulty_store
from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.keys import EVERYTHING
from sparklake.graveler.planning.packing import Task, TaskPiece
from sparklake.graveler.planning.plan import OpenPiece, SideStream
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.records import encode_record
from sparklake.graveler.sstable.range_files import (
    make_meta_range,
    make_range,
    read_each,
    read_meta_range,
    read_range_file,
    tree_file,
    tree_file_key,
    verify_table,
)
from sparklake.stores.cache import DiskCache
from sparklake.stores.cache.cached_store import CachedStore
from sparklake.stores.objects import open_store
from sparklake.strategies.object_access import Objects
from sparklake.testing.azurite import fresh_container
from sparklake.testing.s3_server import fresh_bucket
from sparklake.udfs.compiled_tasks import diff_task
from tests.support.gcs_server import fresh_gcs_bucket

GROWN_BYTES = 80 << 20
SENT_BYTES = 16 << 20
"""The limit of a read: the buffers of a connection hold some of a body that nobody reads."""

RANGE, RANGE_FILE = make_range(
    block_of_records([encode_record(b"k%03d" % at, b"%032d" % at, b"entry") for at in range(300)])
)
TREE, TREE_FILES = make_meta_range([RANGE])


ENDPOINTS = {
    "s3": "AWS_ENDPOINT_URL",
    "azure": "AZURE_STORAGE_ENDPOINT",
    "gcs": "STORAGE_EMULATOR_HOST",
}


@pytest.fixture(params=ENDPOINTS)
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def environment(request: pytest.FixtureRequest, service: str) -> dict[str, str]:
    environment: dict[str, str] = request.getfixturevalue(f"{service}_env")
    return environment


@pytest.fixture
def store(request: pytest.FixtureRequest, service: str, environment: dict[str, str]) -> ObjectStore:
    if service == "s3":
        place = f"s3://{fresh_bucket(environment)}"
    elif service == "azure":
        place = fresh_container(environment)
    else:
        place = fresh_gcs_bucket(request.getfixturevalue("gcs_double")[1])
    return open_store(f"{place}/lake")


@pytest.fixture
def line(
    service: str, environment: dict[str, str], store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyStore]:
    """Store a range, its metarange and an object, all grown; then yield the line to the store."""
    hole = bytes(GROWN_BYTES)
    for key, body in {tree_file_key(RANGE.id): RANGE_FILE, **TREE_FILES, "data/x": b"body"}.items():
        store.replace(key, body + hole)
    name = ENDPOINTS[service]
    with faulty_store(environment[name], rate=0, seed=0) as faulty:
        monkeypatch.setenv(name, faulty.endpoint)
        yield faulty


def test_an_oversized_tree_file_is_not_read_whole(
    store: ObjectStore, line: FaultyStore, tmp_path: Path
) -> None:
    cached = CachedStore(store, DiskCache(tmp_path, 1 << 30), verify_table)
    task = Task((TaskPiece(0, OpenPiece(EVERYTHING, (SideStream((RANGE,)), SideStream()))),))
    for read in (
        lambda: list(read_each(store, [RANGE])),
        lambda: read_range_file(tree_file(store, RANGE.id), RANGE.id),
        lambda: read_meta_range(store, TREE.id),
        lambda: list(read_each(cached, [RANGE])),
        lambda: cached.get(tree_file_key(RANGE.id)),
        lambda: read_meta_range(cached, TREE.id),
        lambda: diff_task(store, task),
    ):
        line.sent_bytes = 0
        with pytest.raises(CorruptFileError, match=f"{RANGE.id}|{TREE.id}"):
            read()
        assert line.sent_bytes < SENT_BYTES


def test_an_oversized_object_is_not_read_whole(store: ObjectStore, line: FaultyStore) -> None:
    side = {"address": f"{store.uri}/data/x", "size": 4, "checksum": ""}
    with pytest.raises(CorruptFileError, match="bytes, not 4"):
        Objects(store.uri).read(side)
    assert line.sent_bytes < SENT_BYTES


def test_a_large_object_is_read_in_slices(store: ObjectStore) -> None:
    body = bytes(range(256)) * (33 << 12)
    store.put_if_absent("large", body)
    (content,) = store.get_many(["large"])
    assert len(content) == len(body)
    assert (content[-5:], content[1000:1010]) == (body[-5:], body[1000:1010])
    assert content[:] == body
