"""Tables in Azure and Google: by Spark's own client, and without one, where tasks upload."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sparklake
from campaigns.postgres import fresh_database
from sparklake import Lake
from sparklake.errors import MissingDependencyError
from sparklake.testing.azurite import fresh_container
from sparklake.testing.lakes import contents
from tests.support.gcs_server import Buckets, fresh_gcs_bucket
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.system]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, lake_dsn: str) -> Iterator[Lake]:
    """Is a lake of which Spark runs writers alone: its Python workers lack the environment."""
    with sparklake.connect(dsn=lake_dsn, spark=spark, engine="local") as opened:
        yield opened


@pytest.fixture(params=["azure", "google"])
def place(
    request: pytest.FixtureRequest,
    azure_env: dict[str, str],
    gcs_env: dict[str, str],
    gcs_double: tuple[str, Buckets],
) -> str:
    return (
        fresh_container(azure_env) if request.param == "azure" else fresh_gcs_bucket(gcs_double[1])
    )


def test_tasks_upload_what_spark_has_written(
    spark: SparkSession,
    lake: Lake,
    names: Iterator[str],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SPARKLAKE_SCRATCH", str(tmp_path))
    repo = lake.create_repository(next(names), f"{place}/lake")
    main = repo.branch("main")
    frame = spark.createDataFrame([(1, "a b:é%"), (2, None)], "id int, name string").coalesce(1)
    assert main.write(frame, "tables/x", "json", partition_by=["name"]).files == 3
    main.commit("Write a table")
    found = contents(repo, "main")
    assert sorted(each for each in found.values() if each) == [b'{"id":1}\n', b'{"id":2}\n']
    assert any("name=a b%3Aé%25/part-" in each for each in found)
    lacking = r".*hadoop-azure.*gcs-connector"
    with pytest.raises(MissingDependencyError, match=f"reads tables{lacking}"):
        repo.read("main", "tables/x", format="json").collect()
    with pytest.raises(MissingDependencyError, match=f"writes Delta or Iceberg tables{lacking}"):
        main.write(frame, "tables/d", "delta")
    assert not list(tmp_path.rglob("part-*"))


@pytest.mark.timeout(900)  # on a machine that may be busy
@pytest.mark.skipif(IS_3, reason="the hadoop-azure of Spark 3.5 does not know the Blob API")
def test_spark_writes_and_reads_azure_itself(
    azure_env: dict[str, str], server_dsn: str, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
    with fresh_database(server_dsn) as dsn:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.support.azure_tables"),
                *(fresh_container(azure_env), str(hosts)),
            ],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "SPARKLAKE_DSN": dsn},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
