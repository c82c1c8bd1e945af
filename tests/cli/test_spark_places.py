"""Commands that read and write rows with Spark in a bucket, by `s3://` and by `s3a://`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sparklake.testing.s3_server import fresh_bucket, s3_environment, s3_server
from tests.cli.running import Scene, failed, ok, run, said
from tests.support.s3_server import s3a_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLIENT = "org.apache.hadoop.fs.s3a.S3AFileSystem"


@pytest.fixture(scope="module")
def s3(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Let Spark's S3 client use a server of this module."""
    with s3_server() as endpoint:
        environment = s3_environment(endpoint, tmp_path_factory.getbasetemp())
        settings = s3a_settings(environment)
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield environment
        for name in settings:
            spark.conf.unset(name)


@pytest.fixture
def place(s3: dict[str, str], spark: SparkSession) -> str:
    """Return a bucket, without a scheme, with rows in its folder `in`."""
    bucket = fresh_bucket(s3)
    spark.createDataFrame([(1, "a"), (2, "b")], "id int, name string").write.csv(
        f"s3a://{bucket}/in", header=True
    )
    return bucket


def test_a_table_is_written_from_a_bucket(scene: Scene, place: str) -> None:
    for number, scheme in enumerate(("s3", "s3a")):
        source = ("--from", f"{scheme}://{place}/in", "--source-format", "csv")
        made = said("write", scene.uri("main", f"t{number}"), *source)
        assert made["files"] > 0
    wrong = failed(2, "write", scene.uri("main", "t"), "--from", f"s3://{place}/none")
    assert f"Spark cannot read s3://{place}/none as parquet: [PATH_NOT_FOUND]" in wrong


@pytest.mark.system
def test_differences_are_saved_in_a_bucket(scene: Scene, place: str, spark: SparkSession) -> None:
    scene.commit("main", {"a": "1"})
    ok("put", "-", scene.uri("main", "b"), stdin=b"2")
    text = ok("diff", scene.uri("main"), "--to", f"s3://{place}/out")
    assert text == f"1 added; the rows are in s3://{place}/out\n"
    assert [row["path"] for row in spark.read.parquet(f"s3a://{place}/out").collect()] == ["b"]


def test_a_session_with_an_own_handler_keeps_it(
    scene: Scene, place: str, spark: SparkSession
) -> None:
    # As on EMR, where the handler is EMRFS.
    spark.conf.set("fs.s3.impl", "no.such.Handler")
    try:
        source = ("--from", f"s3://{place}/in", "--source-format", "csv")
        with pytest.raises(Exception, match=r"no\.such\.Handler"):
            run("write", scene.uri("main", "own"), *source)
        spark.conf.set("fs.s3.impl", CLIENT)
        assert said("write", scene.uri("main", "own"), *source)["files"] > 0
    finally:
        spark.conf.unset("fs.s3.impl")


@pytest.mark.usefixtures("spark")
def test_a_place_without_a_client_is_named(scene: Scene) -> None:
    wrong = failed(15, "write", scene.uri("main", "t"), "--from", "no-such-scheme://bucket/in")
    assert "Spark cannot read no-such-scheme://bucket/in as parquet" in wrong
    assert "has no client for that place" in wrong
