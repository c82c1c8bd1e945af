"""Imports from a bucket: listings of many pages, and inventories in each of their formats."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from sparklake import Branch, InvalidImportError, Inventory, Lake, Repository
from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.testing.s3_server import aws_client, fresh_bucket
from tests.support.inventories import KEYS, TIME, put_inventory
from tests.support.lakes import paths


@pytest.fixture
def client(s3_env: dict[str, str]) -> Any:
    return aws_client("s3", s3_env)


@pytest.fixture
def bucket(s3_env: dict[str, str]) -> str:
    return fresh_bucket(s3_env)


@pytest.fixture
def repo(small_lake: Lake, bucket: str, scratch: object) -> Repository:
    return small_lake.create_repository("lake", f"s3://{bucket}/lakes/one", range_records=64)


@pytest.mark.system
def test_a_listing_of_many_pages(main: Branch, repo: Repository, client: Any, bucket: str) -> None:
    keys = [f"flat/{number:04d}" for number in range(1050)] + ["deep/er/1", "deep/2", "top"]
    for key in keys:
        client.put_object(Bucket=bucket, Key=f"raw/{key}", Body=key.encode())
    client.put_object(Bucket=bucket, Key="raw/marker/", Body=b"")
    report = main.import_objects(f"s3://{bucket}/raw", "in")
    assert report.objects == len(keys)
    assert paths(repo, "main") == sorted(f"in/{key}" for key in keys)
    one = repo.stat("main", "in/deep/2")
    assert (one.checksum, one.address) == (
        hashlib.md5(b"deep/2", usedforsecurity=False).hexdigest(),
        f"s3://{bucket}/raw/deep/2",
    )


def test_a_checksum_is_asked_for(main: Branch, repo: Repository, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="raw/k", Body=b"k")
    address = [f"s3://{bucket}/raw/k", f"s3a://{bucket}/lakes/one/data/x", f"s3://{bucket}/raw/no"]
    rows = pa.table({"path": ["a", "b", "c"], "size": [1, 1, 1], "address": address})
    report = main.import_objects(rows, on_error="skip", replace=True)
    assert report.counts == {"missing_object": 1, "own_namespace": 1}
    assert repo.stat("main", "a").checksum == hashlib.md5(b"k", usedforsecurity=False).hexdigest()


# --- inventories ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["Parquet", "ORC", "CSV"])
def test_an_inventory(main: Branch, repo: Repository, client: Any, bucket: str, form: str) -> None:
    uri = put_inventory(client, bucket, form)
    assert main.import_objects(Inventory(uri), "all").objects == len(KEYS)
    found = {each.path: each for each in repo.objects("main")}
    assert set(found) == {f"all/{key}" for key in KEYS}
    for number, key in enumerate(KEYS):
        one = found[f"all/{key}"]
        assert (one.address, one.size) == (f"s3://{bucket}/{key}", len(key))
        assert (one.checksum, one.mtime) == (f"tag-{number}", int(TIME.timestamp()) * 10**9)
    main.import_objects(Inventory(uri, "raw"), "part")
    part = [key.removeprefix("raw/") for key in KEYS if key.startswith("raw/")]
    assert paths(repo, "main", "part/") == sorted(f"part/{key}" for key in part)


def test_inventories_that_cannot_be_used(main: Branch, client: Any, bucket: str) -> None:
    before = main.state
    for changes, words in (
        ({"fileFormat": "Avro"}, "files in avro: only"),
        ({"fileSchema": "Bucket, Key"}, "one for sizes"),
        ({"files": None}, "not the manifest of an inventory"),
    ):
        uri = put_inventory(client, bucket, "CSV", **changes)
        with pytest.raises(InvalidInputError, match=words):
            main.import_objects(Inventory(uri))
    uri = put_inventory(client, bucket, "CSV")
    client.put_object(Bucket=bucket, Key="inventory/data/0.csv.gz", Body=b"overwritten")
    with pytest.raises(CorruptFileError, match="does not have the MD5"):
        main.import_objects(Inventory(uri))
    for body in (b"a,b\n", b"\xff\xfe no parquet"):
        files = [put_file(client, bucket, body), put_file(client, bucket, b"")]
        uri = put_inventory(client, bucket, "CSV", files=files)
        with pytest.raises(CorruptFileError, match="does not match its manifest"):
            main.import_objects(Inventory(uri))
    assert main.state == before


def test_a_file_of_an_inventory_may_be_empty(main: Branch, client: Any, bucket: str) -> None:
    uri = put_inventory(client, bucket, "CSV", files=[put_file(client, bucket, b"")])
    with pytest.raises(InvalidInputError, match="contains no objects"):
        main.import_objects(Inventory(uri))


def put_file(client: Any, bucket: str, body: bytes) -> dict[str, str]:
    """Put a file of an inventory; return what a manifest says of it."""
    key = f"inventory/own/{len(body)}.csv.gz"
    client.put_object(Bucket=bucket, Key=key, Body=gzip.compress(body))
    return {"key": key}


def test_an_inventory_of_the_own_namespace(
    main: Branch, small_lake: Lake, client: Any, bucket: str
) -> None:
    uri = put_inventory(client, bucket, "Parquet")
    own = small_lake.create_repository("own", f"s3://{bucket}/raw")
    with pytest.raises(InvalidImportError) as raised:
        own.branch("main").import_objects(Inventory(uri))
    assert raised.value.counts == {"own_namespace": 4}


def test_a_bucket_that_does_not_exist_is_bad_input(
    small_lake: Lake, main: Branch, bucket: str, tmp_path: Path
) -> None:
    gone = f"s3://nowhere-{uuid4().hex}"
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_text("1")
    calls: list[Callable[[], object]] = [
        lambda: main.import_objects(f"{gone}/raw"),
        lambda: main.import_objects(Inventory(f"{gone}/manifest.json")),
        lambda: main.import_objects(Inventory(f"s3://{bucket}/nothing/manifest.json")),
        lambda: main.import_objects(str(source), errors_to=f"{gone}/errors"),
        lambda: small_lake.create_repository("another", f"{gone}/lake"),
        lambda: small_lake.restore_repository("another", f"{gone}/lake"),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match="does not exist"):
            call()
