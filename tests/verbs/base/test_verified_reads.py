"""Bytes that are no longer what was added, at the same size: no whole read returns them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from moto.s3.models import s3_backends

from sparklake import Lake, Repository
from sparklake.errors import CorruptFileError, StrategyError
from sparklake.fs import SparklakeFileSystem
from sparklake.rows.objects import STAGE_SCHEMA
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import commit_all, memory_lake
from sparklake.testing.s3_server import aws_client
from tests.support.s3_fixtures import Bucket

BODY = bytes(range(256)) * (12 << 10)
WRONG = BODY[:-1] + bytes([BODY[-1] ^ 1])
MD5, WRONG_MD5 = (hashlib.md5(each).hexdigest() for each in (BODY, WRONG))
NO_MD5 = {"upper case": MD5.upper(), "of parts": f"{WRONG_MD5}-2", "none": "", "sha": 2 * WRONG_MD5}


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as made:
        yield made


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


@pytest.fixture
def repo(lake: Lake, folder: Path) -> Repository:
    made = lake.create_repository("lake", str(folder / "namespace"))
    commit_all(made.branch("main"), {"k": BODY, "empty": b""}, "base")
    return made


def overwrite(address: str, body: bytes) -> None:
    Path(address.removeprefix("file://")).write_bytes(body)


def in_chunks(file: Any) -> bytes:
    with file:
        return b"".join(iter(lambda: file.read(100_001), b""))


def got(repo: Repository, lake: Lake) -> bytes:
    fs = SparklakeFileSystem(lake=lake, skip_instance_cache=True)
    target = Path(repo.info.storage_namespace.removeprefix("file://")) / "got"
    try:
        fs.get("lakefs://lake/main/k", str(target))
    except CorruptFileError:
        assert not target.exists(), "what is damaged is not left as a file"
        raise
    return target.read_bytes()


def fs_of(lake: Lake) -> SparklakeFileSystem:
    return SparklakeFileSystem(lake=lake, skip_instance_cache=True)


PATH = "lakefs://lake/main/k"
READERS: dict[str, Callable[[Repository, Lake], bytes]] = {
    "read_bytes": lambda repo, lake: repo.read_bytes("main", "k"),
    "open": lambda repo, lake: repo.open("main", "k").read(),
    "open, in chunks": lambda repo, lake: in_chunks(repo.open("main", "k")),
    "fs.cat": lambda repo, lake: fs_of(lake).cat(PATH),
    "fs.open": lambda repo, lake: fs_of(lake).open(PATH).read(),
    "fs.open, in chunks": lambda repo, lake: in_chunks(fs_of(lake).open(PATH)),
    "fs.open, cached": lambda repo, lake: in_chunks(fs_of(lake).open(PATH, cache_type="readahead")),
    "fs.get": got,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_changed_byte_is_found(repo: Repository, lake: Lake, reader: str) -> None:
    assert READERS[reader](repo, lake) == BODY
    address = repo.stat("main", "k").address
    overwrite(address, WRONG)
    with pytest.raises(CorruptFileError, match="'k'") as raised:
        READERS[reader](repo, lake)
    said = str(raised.value)
    assert all(each in said for each in (MD5, WRONG_MD5, address, "restore the original"))


def test_an_import_is_checked(repo: Repository, lake: Lake, folder: Path) -> None:
    (folder / "source").mkdir()
    (folder / "source" / "k").write_bytes(BODY)
    repo.branch("main").import_objects(str(folder / "source"), "in")
    assert repo.read_bytes("main", "in/k") == BODY
    (folder / "source" / "k").write_bytes(WRONG)
    with pytest.raises(CorruptFileError, match="in/k"):
        repo.read_bytes("main", "in/k")


@pytest.mark.parametrize("checksum", NO_MD5.values(), ids=NO_MD5)
@pytest.mark.parametrize("reader", ["read_bytes", "open, in chunks", "fs.cat"])
def test_what_is_no_md5_is_not_taken_for_one(
    repo: Repository, lake: Lake, folder: Path, checksum: str, reader: str
) -> None:
    stage_with(repo, repo.stat("main", "k").address, checksum)
    assert READERS[reader](repo, lake) == BODY


def stage_with(repo: Repository, address: str, checksum: str) -> None:
    row = {"path": "k", "size": len(BODY), "address": address, "checksum": checksum}
    rows = pa.Table.from_pylist([row], STAGE_SCHEMA).select(list(row))
    repo.branch("main").stage(rows)


def test_parts_are_read_from_what_is_damaged(repo: Repository, lake: Lake) -> None:
    """A part cannot be checked, and a reader that leaves gaps is not told; see the docs."""
    overwrite(repo.stat("main", "k").address, WRONG)
    with repo.open("main", "k") as file:
        file.seek(1)
        assert file.read() == WRONG[1:]
    assert fs_of(lake).cat_file(PATH, 1, 10) == WRONG[1:10]


def test_one_who_reads_out_of_order_is_checked_in_the_end(repo: Repository, lake: Lake) -> None:
    """As readers of Parquet do: the end first, then the beginning, some of it twice."""
    file = fs_of(lake).open(PATH)
    for start, size in ((len(BODY) - 8, 8), (0, 4), (0, 2 << 20), (1 << 20, 10)):
        file.seek(start)
        assert file.read(size) == BODY[start : start + size]
    file.seek(2 << 20)
    overwrite(repo.stat("main", "k").address, WRONG)
    for _ in range(2):
        with pytest.raises(CorruptFileError):
            file.read()


def test_an_empty_object(repo: Repository, lake: Lake) -> None:
    assert repo.read_bytes("main", "empty") == b""
    assert repo.open("main", "empty").read() == b""
    assert fs_of(lake).cat("lakefs://lake/main/empty") == b""


def test_lines_are_not_merged_of_what_is_damaged(repo: Repository) -> None:
    main = repo.branch("main")
    commit_all(main, {"text": b"a\nb\n"}, "text")
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"text": b"a\nb\nc\n"}, "theirs")
    commit_all(main, {"text": b"x\na\nb\n"}, "ours")
    overwrite(repo.stat("dev", "text").address, b"a\nb\nC\n")
    with pytest.raises(StrategyError, match="overwritten outside the lake"):
        repo.merge("dev", "main", strategy="union-lines")


# --- buckets --------------------------------------------------------------------------------------


@pytest.fixture
def in_bucket(lake: Lake, bucket: Bucket) -> Repository:
    made = lake.create_repository("lake", f"s3://{bucket.name}/lake")
    commit_all(made.branch("main"), {"k": BODY}, "base")
    return made


BUCKET_READERS = ["read_bytes", "open, in chunks", "fs.cat"]


@pytest.mark.parametrize("reader", BUCKET_READERS)
def test_an_overwritten_object_of_a_bucket(
    in_bucket: Repository, lake: Lake, bucket: Bucket, reader: str
) -> None:
    assert READERS[reader](in_bucket, lake) == BODY
    key = in_bucket.stat("main", "k").address.removeprefix(f"s3://{bucket.name}/")
    bucket.put({key: WRONG})
    with pytest.raises(CorruptFileError, match=WRONG_MD5):
        READERS[reader](in_bucket, lake)


@pytest.mark.parametrize("reader", BUCKET_READERS)
def test_the_etag_of_an_encrypted_object_is_no_md5(
    in_bucket: Repository, lake: Lake, bucket: Bucket, reader: str
) -> None:
    """S3 gives objects that KMS encrypts ETags that look like MD5s: an import takes them over."""
    put_encrypted(bucket, "theirs/k")
    address = f"s3://{bucket.name}/theirs/k"
    assert bucket.objects("theirs/") == {"theirs/k": f'"{WRONG_MD5}"'}
    stage_with(in_bucket, address, WRONG_MD5)
    assert READERS[reader](in_bucket, lake) == BODY
    stage_with(in_bucket, address, "0" * 32)
    with pytest.raises(CorruptFileError, match="0" * 32):
        READERS[reader](in_bucket, lake)


def put_encrypted(bucket: Bucket, key: str) -> None:
    """Put BODY by KMS, with the ETag of something else, as AWS does and moto does not."""
    client = aws_client("s3", dict(os.environ))
    client.put_object(Bucket=bucket.name, Key=key, Body=BODY, ServerSideEncryption="aws:kms")
    (backend,) = (found for found in all_backends() if bucket.name in found.buckets)
    backend.buckets[bucket.name].keys[key]._etag = WRONG_MD5


def all_backends() -> Iterator[Any]:
    """Yield moto's backends, which are in this process."""
    return (each for account in s3_backends.values() for each in account.values())
