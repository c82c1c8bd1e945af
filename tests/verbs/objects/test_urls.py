"""Presigned URLs: anyone may read one object with them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest

from sparklake import Repository
from sparklake.errors import (
    CorruptFileError,
    InvalidInputError,
    MissingFileError,
    ObjectNotFoundError,
)
from sparklake.testing.lakes import memory_lake
from tests.support.s3_fixtures import Bucket

BODIES = {"data/a b%+.txt": b"odd", "plain.csv": b"plain"}


@pytest.fixture
def repo(bucket: Bucket) -> Repository:
    repo = memory_lake().create_repository("lake", f"s3://{bucket.name}/lake")
    for path, body in BODIES.items():
        repo.branch("main").put(path, body)
    repo.branch("main").commit("Add files")
    return repo


def test_a_url_reads_an_object_without_credentials(repo: Repository) -> None:
    for path, body in BODIES.items():
        with urlopen(repo.url("main", path, timedelta(minutes=5))) as answer:
            assert answer.read() == body


def test_an_imported_object_has_a_url_too(repo: Repository, bucket: Bucket) -> None:
    key = "raw/x=1/p%20 é#?.csv"
    bucket.put({key: b"imported"})
    repo.branch("main").import_objects(f"s3://{bucket.name}/raw", "raw")
    with urlopen(repo.url("main", key)) as answer:
        assert answer.read() == b"imported"


def test_what_has_no_url(repo: Repository, bucket: Bucket, tmp_path: Path) -> None:
    for seconds in (0, -1, 7 * 24 * 3600 + 1):
        with pytest.raises(InvalidInputError, match="choose 1 second to 7 days"):
            repo.url("main", "plain.csv", timedelta(seconds=seconds))
    with pytest.raises(ObjectNotFoundError):
        repo.url("main", "nothing")
    key = repo.stat("main", "plain.csv").address.partition(f"{bucket.name}/")[2]
    bucket.put({key: b"another size"})
    with pytest.raises(CorruptFileError, match="has 12 bytes"):
        repo.url("main", "plain.csv")
    bucket.delete(key)
    with pytest.raises(MissingFileError, match="restore it there"):
        repo.url("main", "plain.csv")
    local = memory_lake().create_repository("local", str(tmp_path / "lake"))
    local.branch("main").put("a", b"a")
    with pytest.raises(InvalidInputError, match=r"file://.* has no presigned URLs"):
        local.url("main", "a")
