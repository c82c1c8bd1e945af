"""Exports from and to buckets, over HTTP, in all four directions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from boto3.session import Session
from botocore.config import Config

from sparklake import Lake, Repository
from sparklake.errors import CorruptFileError, InvalidInputError, MissingFileError
from sparklake.stores.objects.s3 import destination as s3_destination
from sparklake.testing.lakes import commit_all, stage_table
from tests.support.s3_fixtures import Bucket
from tests.support.s3_server import recorded_requests
from tests.verbs.exports.test_export import tree_of

TREE = {"a": b"1", "t/x=1/\u00e9 b%.csv": b"22", "t/x=2/c": b"", "u/d": b"4444"}
LARGE = bytes(range(256)) * (70 << 10)
"""Of two parts."""


@pytest.fixture(params=["local", "s3"])
def repo(
    request: pytest.FixtureRequest, small_lake: Lake, bucket: Bucket, folder: Path
) -> Repository:
    place = str(folder / "namespace") if request.param == "local" else f"s3://{bucket.name}/lake"
    made = small_lake.create_repository("lake", place, range_records=2)
    commit_all(made.branch("main"), {**TREE, "large": LARGE}, "first")
    return made


def exported(bucket: Bucket) -> dict[str, bytes]:
    found = {key.removeprefix("out/"): key for key in bucket.objects("out/")}
    return {name: bucket.get(key) for name, key in found.items() if not name.startswith("_")}


def test_to_a_bucket(repo: Repository, bucket: Bucket) -> None:
    to, main = f"s3://{bucket.name}/out", repo.branch("main")
    with recorded_requests() as requests:
        repo.export("main", to)
    assert exported(bucket) == {**TREE, "large": LARGE}
    if repo.info.storage_namespace.startswith("s3"):
        read = {key for method, key in requests if method == "GET"}
        addresses = {each.address.rpartition("/")[2] for each in repo.objects("main")}
        assert not addresses & read
    commit_all(main, {"a": None, "a/b": b"5", "large": b"small"}, "second")
    made = repo.export("main", to, incremental=True)
    assert (made.added, made.changed, made.removed) == (1, 1, 1)
    rest = {path: body for path, body in TREE.items() if path != "a"}
    assert exported(bucket) == {**rest, "a/b": b"5", "large": b"small"}
    assert repo.export("main", to, manifest_only=True, dry_run=True, overwrite=True).added == 5


def test_to_a_folder(repo: Repository, folder: Path) -> None:
    repo.export("main", str(folder / "out"))
    assert tree_of(folder / "out") == {**TREE, "large": LARGE}


def test_what_was_overwritten_never_arrives(repo: Repository, bucket: Bucket, folder: Path) -> None:
    wrong = LARGE[:-1] + b"x"
    for path, body in (("a", b"2"), ("large", wrong)):
        address = repo.stat("main", path).address
        if address.startswith("s3"):
            bucket.put({address.removeprefix(f"s3://{bucket.name}/"): body})
        else:
            Path(address.removeprefix("file://")).unlink()
            Path(address.removeprefix("file://")).write_bytes(body)
        for to in (f"s3://{bucket.name}/out", str(folder / "out")):
            with pytest.raises(CorruptFileError, match=path):
                repo.export("main", to, prefix=path, overwrite=True)
        assert exported(bucket) == {}
        assert tree_of(folder / "out") == {}


def test_what_is_gone_is_named(repo: Repository, bucket: Bucket, folder: Path) -> None:
    address = repo.stat("main", "a").address
    if address.startswith("s3"):
        bucket.delete(address.removeprefix(f"s3://{bucket.name}/"))
    else:
        Path(address.removeprefix("file://")).unlink()
    for to in (f"s3://{bucket.name}/out", str(folder / "out")):
        with pytest.raises(MissingFileError, match="'a'"):
            repo.export("main", to)


def test_a_bucket_that_is_not_there(repo: Repository) -> None:
    with pytest.raises(InvalidInputError, match=r"bucket of s3://nowhere-.* does not exist"):
        repo.export("main", f"s3://nowhere-{uuid4().hex}/out")


def test_large_objects_are_copied_in_parts(
    small_lake: Lake, bucket: Bucket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_destination, "COPY_BYTES", 8 << 20)
    monkeypatch.setattr(s3_destination, "_COPIED_PART_BYTES", 8 << 20)
    repo = small_lake.create_repository("lake", f"s3://{bucket.name}/lake")
    commit_all(repo.branch("main"), {"large": LARGE}, "large")
    repo.export("main", f"s3://{bucket.name}/out")
    assert exported(bucket) == {"large": LARGE}


def test_an_md5_counts_where_the_etag_is_of_parts(
    small_lake: Lake, bucket: Bucket, folder: Path, s3_env: dict[str, str]
) -> None:
    # The server would give the copy the checksum of the parts, which it is not.
    config = Config(request_checksum_calculation="when_required")
    client: Any = Session().client("s3", endpoint_url=s3_env["AWS_ENDPOINT_URL"], config=config)
    source = folder / "large"
    source.write_bytes(LARGE)
    client.upload_file(str(source), bucket.name, "source/large")
    etag = bucket.objects("source/")["source/large"].strip('"')
    assert "-" in etag
    repo = small_lake.create_repository("lake", str(folder / "namespace"))
    md5 = hashlib.md5(LARGE).hexdigest()
    address = f"s3://{bucket.name}/source/large"
    rows = [
        {"path": path, "size": len(LARGE), "checksum": checksum, "address": address}
        for path, checksum in (("by-md5", md5), ("by-etag", etag), ("unknown", "sha256:0"))
    ]
    repo.branch("main").stage(stage_table(rows))
    repo.branch("main").commit("the same three times")
    repo.export("main", f"s3://{bucket.name}/out")
    repo.export("main", str(folder / "out"))
    assert set(exported(bucket).values()) == set(tree_of(folder / "out").values()) == {LARGE}
    wrong = [{**rows[0], "checksum": "0" * 32}, {**rows[1], "checksum": f"{'0' * 32}-3"}]
    for each in wrong:
        repo.branch("main").stage(stage_table([each]))
        repo.branch("main").commit("wrong")
        for to in (f"s3://{bucket.name}/wrong", str(folder / "wrong")):
            with pytest.raises(CorruptFileError):
                repo.export("main", to, prefix=str(each["path"]), overwrite=True)
