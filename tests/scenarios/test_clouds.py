"""One story in a folder of each cloud: import, merge, revert, gc, purge, check, dump, export."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklake import Lake, Repository
from sparklake.errors import (
    AlreadyExistsError,
    MergeConflictError,
    MissingFileError,
    NoChangesError,
    PurgedError,
    SparklakeError,
)
from sparklake.fs import SparklakeFileSystem
from sparklake.stores.objects import open_store
from sparklake.testing.azurite import container_client, fresh_container
from sparklake.testing.lakes import commit_all, contents, memory_lake
from sparklake.testing.s3_server import aws_client, fresh_bucket
from tests.support.gcs_server import Buckets, fresh_gcs_bucket, key_file
from tests.support.lakes import assert_healthy, refs_of
from tests.support.s3_fixtures import Bucket

RAW = {"raw/a.csv": b"a", "raw/_SUCCESS": b"", "raw/x=1/p%20q r#é?": b"dddd", "raw/b": b"bb"}


@dataclass(frozen=True)
class Place:
    """A fresh bucket or container, and how its own tools write to it."""

    uri: str
    put: Callable[[Mapping[str, bytes]], None]

    def listed(self, prefix: str = "") -> set[str]:
        return {each.key for each in open_store(self.uri).list(prefix)}


@pytest.fixture
def s3(s3_env: dict[str, str]) -> Place:
    bucket = Bucket(aws_client("s3", s3_env), fresh_bucket(s3_env))
    return Place(f"s3://{bucket.name}", bucket.put)


@pytest.fixture
def azure(azure_env: dict[str, str]) -> Place:
    uri = fresh_container(azure_env)
    client = container_client(azure_env, uri.rpartition("/")[2])

    def put(objects: Mapping[str, bytes]) -> None:
        for key, body in objects.items():
            client.upload_blob(key, body, overwrite=True)

    return Place(uri, put)


@pytest.fixture
def google(gcs_env: dict[str, str], gcs_double: tuple[str, Buckets]) -> Place:
    uri = fresh_gcs_bucket(gcs_double[1])

    def put(objects: Mapping[str, bytes]) -> None:
        for key, body in objects.items():
            gcs_double[1].put(uri.removeprefix("gs://"), key, body, None)

    return Place(uri, put)


@pytest.fixture(params=["s3", "azure", "google"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    found.put(RAW)
    return found


@pytest.fixture
def repo(small_lake: Lake, place: Place) -> Repository:
    return small_lake.create_repository("lake", f"{place.uri}/lakes/one", range_records=2)


@pytest.mark.system
def test_the_story(
    repo: Repository,
    place: Place,
    small_lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = repo.branch("main")
    main.import_objects(f"{place.uri}/raw", "raw")
    assert contents(repo, "main") == RAW
    for each in repo.objects("main"):
        assert each.address == f"{place.uri}/{each.path}"
        assert each.checksum == open_store(place.uri).find(each.path).checksum  # type: ignore[union-attr]
    with pytest.raises(NoChangesError):
        main.import_objects(f"{place.uri}/raw", "raw")
    main.import_objects(f"{place.uri}/raw/x=1", "raw")

    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"raw/a.csv": b"theirs", "raw/b": None, "new/é %41": b"new"}, "theirs")
    commit_all(main, {"raw/a.csv": b"ours", "raw/c": b"ours"}, "ours")
    before = place.listed()
    with pytest.raises(MergeConflictError):
        repo.merge("dev", "main")
    assert place.listed() == before
    repo.merge("dev", "main", "source-wins")
    merged = contents(repo, "main")
    assert (merged["raw/a.csv"], merged["new/é %41"], "raw/b" in merged) == (
        b"theirs",
        b"new",
        False,
    )
    main.revert("main", parent_number=1)
    assert contents(repo, "main")["raw/a.csv"] == b"ours"
    assert contents(repo, "main~1") == merged
    repo.create_tag("v1", "main~1")

    main.put("staged", b"dropped")
    main.reset()
    place.put({"lakes/one/data/failed/part": b"lost", "lakes/one/mine": b"kept"})
    collected = repo.collect_garbage(grace=timedelta())
    assert collected.run.objects == 2
    assert "lakes/one/data/failed/part" not in place.listed()
    assert "lakes/one/mine" in place.listed()
    assert contents(repo, "v1") == merged
    assert_healthy(repo)

    fs = SparklakeFileSystem(lake=small_lake, skip_instance_cache=True)
    bodies = {f"lake/v1/{path}": body for path, body in merged.items()}
    assert fs.cat([*bodies]) == bodies
    top = {each for each in bodies if each.startswith("lake/v1/raw/") and each.count("/") == 3}
    assert {*fs.ls("lake/v1/raw", detail=False)} == {*top, "lake/v1/raw/x=1"}

    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file(tmp_path)))
    for path in ("raw/x=1/p%20q r#é?", "new/é %41"):
        with urlopen(repo.url("v1", path)) as answer:
            assert answer.read() == merged[path]

    repo.purge(["new/**"], "request 7", commit=True)
    with pytest.raises(PurgedError):
        repo.read_bytes("v1", "new/é %41")
    assert_healthy(repo)

    repo.dump_refs()
    restored = memory_lake().restore_repository("again", f"{place.uri}/lakes/one")
    assert contents(restored, "main") == contents(repo, "main")
    assert refs_of(restored)["tags"] == refs_of(repo)["tags"]


def test_exports(repo: Repository, place: Place, tmp_path: Path) -> None:
    main = repo.branch("main")
    main.import_objects(f"{place.uri}/raw", "raw")
    commit_all(main, {"own": b"own", "large": b"x" * 3_000_000}, "own")
    repo.export("main", f"{place.uri}/out")
    exported = open_store(f"{place.uri}/out")
    expected = contents(repo, "main")
    assert {path: exported.get(path) for path in expected} == expected
    repo.export("main", str(tmp_path / "out"))
    assert (tmp_path / "out/own").read_bytes() == b"own"
    assert (tmp_path / "out/raw/x=1/p%20q r#é?").read_bytes() == b"dddd"


def test_an_export_to_another_cloud(
    small_lake: Lake, s3: Place, azure: Place, google: Place
) -> None:
    azure.put(RAW)
    repo = small_lake.create_repository("lake", f"{azure.uri}/lake")
    repo.branch("main").import_objects(f"{azure.uri}/raw", "raw")
    for other in (s3, google):
        repo.export("main", f"{other.uri}/out")
        exported = open_store(f"{other.uri}/out")
        assert {path: exported.get(path) for path in RAW} == RAW


def test_a_changed_object_is_not_exported(repo: Repository, place: Place) -> None:
    repo.branch("main").import_objects(f"{place.uri}/raw", "raw")
    place.put({"raw/a.csv": b"z"})
    with pytest.raises(SparklakeError, match="overwritten outside"):
        repo.export("main", f"{place.uri}/out")


def test_two_repositories_cannot_share_a_place(
    small_lake: Lake, repo: Repository, place: Place
) -> None:
    with pytest.raises(AlreadyExistsError):
        small_lake.create_repository("second", f"{place.uri}/lakes/one")
    if place.uri.startswith("https://"):
        container = place.uri.rpartition("/")[2]
        with pytest.raises(AlreadyExistsError):
            small_lake.create_repository(
                "second", f"abfss://{container}@devstoreaccount1.dfs.core.windows.net/lakes/one"
            )


def test_a_missing_object_says_where_it_was(repo: Repository, place: Place) -> None:
    repo.branch("main").import_objects(f"{place.uri}/raw", "raw")
    open_store(place.uri).delete("raw/b")
    with pytest.raises(MissingFileError, match="moved or deleted outside the lake"):
        repo.read_bytes("main", "raw/b")


def test_tables_of_rejected_rows(repo: Repository, place: Place) -> None:
    rows = pa.table(
        {
            "path": ["good", "bad"],
            "size": [1, 1],
            "address": [f"{place.uri}/raw/a.csv", "https://host/else"],
        }
    )
    report = repo.branch("main").import_objects(
        rows, "raw", on_error="skip", errors_to=f"{place.uri}/errors"
    )
    assert report.objects == 1
    (key,) = (each for each in place.listed("errors/") if each.endswith(".parquet"))
    (row,) = pq.read_table(io.BytesIO(open_store(place.uri).get(key))).to_pylist()
    assert (row["path"], row["reason"]) == ("raw/bad", "invalid_address")
