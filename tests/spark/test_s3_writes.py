"""Tables in a bucket: written by Spark's S3 client, and by way of the local disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable

from sparklake import Lake, Repository
from sparklake.config import BucketWrites
from sparklake.errors import MissingDependencyError, MissingFileError
from sparklake.testing.lakes import contents
from sparklake.verbs.tables import spark_writer as spark_writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ENGINE = "local"
"""Spark runs writers alone: its Python workers lack the environment of the S3 server."""

IN_BUCKET = True

TABLE = "tables/x"


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    rows = [(1, "a b/c=d:é%"), (2, None), (3, "three")]
    return spark.createDataFrame(rows, "id int, name string").coalesce(1)


def writes(lake: Lake, patch: pytest.MonkeyPatch, how: BucketWrites) -> None:
    patch.setattr(lake._runners, "bucket_writes", how)


def test_spark_writes_to_the_bucket_itself(
    spark: SparkSession, repo: Repository, frame: DataFrame, with_s3a: None
) -> None:
    main = repo.branch("main")
    assert main.write(frame, TABLE, partition_by=["name"]).files == 4
    found = list(repo.objects("main", TABLE))
    assert all(each.address.startswith(f"{repo.info.storage_namespace}/data/") for each in found)
    assert all(len(each.checksum) == 32 for each in found)
    main.write(frame.where("id = 3"), TABLE, mode="overwrite-partitions", partition_by=["name"])
    back = repo.read("main", TABLE)
    assert sorted(map(tuple, back.select("id", "name").collect()), key=repr) == sorted(
        map(tuple, frame.collect()), key=repr
    )
    main.write(frame, "delta", "delta")
    main.write(frame.where("id = 2"), "delta", "delta", mode="append")
    with main.edit_delta("delta") as location:
        assert location.startswith("s3a://")
        table = DeltaTable.forPath(spark, location)
        table.delete("id = 1")
        assert sorted(row.id for row in table.toDF().collect()) == [2, 2, 3]
    assert repo._context.refs.writes.list() == []


def test_tasks_upload_what_spark_has_written_to_local_disk(
    lake: Lake, repo: Repository, frame: DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARKLAKE_SCRATCH", str(tmp_path))
    writes(lake, monkeypatch, BucketWrites.UPLOAD)
    main = repo.branch("main")
    done = main.write(frame, TABLE, "json", partition_by=["name"])
    assert done.files == 4
    found = contents(repo, "main")
    expected = [b'{"id":%d}\n' % number for number in (1, 2, 3)]
    assert sorted(each for each in found.values() if each) == expected
    assert any("name=a b%2Fc%3Dd%3Aé%25/part-" in each for each in found)
    assert not list(tmp_path.rglob("part-*"))
    with pytest.raises(MissingDependencyError, match="S3A"):
        main.write(frame, "delta", "delta")


@pytest.fixture
def without_s3a(spark: SparkSession, with_s3a: None) -> Iterator[None]:
    """Is a session in which the class of the client is not to be found."""
    settings = {"fs.s3a.impl.disable.cache": "true", "fs.s3a.impl": "not.there.S3AFileSystem"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


@pytest.mark.system
def test_spark_that_has_the_client_is_told(repo: Repository, with_s3a: None) -> None:
    assert spark_writing._has_spark_client(repo._context)


def test_spark_that_lacks_the_client_writes_by_the_disk_and_reads_nothing(
    spark: SparkSession, repo: Repository, frame: DataFrame, without_s3a: None
) -> None:
    assert not spark_writing._has_spark_client(repo._context)
    assert repo.branch("main").write(frame, TABLE, partition_by=["name"]).files == 4
    for options in ({}, {"pathGlobFilter": "*"}):
        with pytest.raises(MissingDependencyError, match=r"S3A.*hadoop-aws"):
            repo.read("main", TABLE, **options)


def test_machines_that_do_not_share_a_disk_stage_nothing(
    lake: Lake, repo: Repository, frame: DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the driver sees it: some files of the tasks are not on its disk."""
    monkeypatch.setenv("SPARKLAKE_SCRATCH", str(tmp_path))
    writes(lake, monkeypatch, BucketWrites.UPLOAD)
    save = spark_writing._save

    def elsewhere(rows: DataFrame, request: Any, uri: str, *options: Any) -> None:
        save(rows, request, uri, *options)
        next(Path(uri.removeprefix("file://")).glob("part-*")).unlink()

    monkeypatch.setattr(spark_writing, "_save", elsewhere)
    with pytest.raises(MissingFileError, match=r"do not share a disk.*S3A"):
        repo.branch("main").write(frame, TABLE)
    assert not repo.branch("main").is_dirty
    assert not list(repo._context.store.list("data/"))
