"""Lakes on real Postgres, run by Spark or in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import sparklake
from campaigns.postgres import fresh_database
from sparklake import Lake, Repository
from sparklake.engine.spark import SparkRunner
from sparklake.engine.threads import LocalRunner
from sparklake.testing.s3_server import make_bucket, s3_environment, s3_server
from tests.support.s3_server import s3a_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeRepository = Callable[..., Repository]

TASK_RECORDS = 60
"""Small, so that plans of some hundred objects have several tasks."""


@pytest.fixture(scope="session")
def lake_dsn(server_dsn: str) -> Iterator[str]:
    with fresh_database(server_dsn) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def lake(request: pytest.FixtureRequest, spark: SparkSession, lake_dsn: str) -> Iterator[Lake]:
    """Open a lake that runs every plan as Spark jobs.

    A module about tables sets `ENGINE = "auto"`, as users have it: only Spark touches the rows of
    tables then, and their few files are listed, staged and merged in this process.
    """
    engine = getattr(request.module, "ENGINE", "spark")
    with sparklake.connect(dsn=lake_dsn, spark=spark, engine=engine) as opened:
        yield opened


@pytest.fixture(scope="session")
def local_lake(lake_dsn: str) -> Iterator[Lake]:
    """Open the same lake, but runs every plan in this process."""
    with sparklake.connect(dsn=lake_dsn, engine="local") as opened:
        yield opened


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    return (f"repository-{number}" for number in count())


@pytest.fixture
def namespace(tmp_path: Path) -> Path:
    return tmp_path / "namespace"


@pytest.fixture
def repo(request: pytest.FixtureRequest, lake: Lake, names: Iterator[str]) -> Repository:
    """Create a repository on the disk, or in a bucket for a module with `IN_BUCKET = True`."""
    in_bucket = getattr(request.module, "IN_BUCKET", False)
    place = request.getfixturevalue("bucket" if in_bucket else "namespace")
    uri = f"s3://{place}/lake" if in_bucket else str(place)
    return lake.create_repository(next(names), uri, range_records=8)


@pytest.fixture(scope="module")
def s3_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Serve S3, for clients of this process and, with `with_s3a`, for Spark's."""
    with s3_server() as endpoint, pytest.MonkeyPatch.context() as patch:
        settings = s3_environment(endpoint, tmp_path_factory.getbasetemp())
        for name, value in settings.items():
            patch.setenv(name, value)
        yield settings


@pytest.fixture
def bucket(s3_settings: dict[str, str]) -> str:
    name = f"bucket-{uuid4().hex}"
    make_bucket(s3_settings, name)
    return name


@pytest.fixture
def with_s3a(spark: SparkSession, s3_settings: dict[str, str]) -> Iterator[None]:
    """Let Spark speak S3, with settings that a user's session has."""
    settings = s3a_settings(s3_settings)
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


@pytest.fixture
def make_twins(
    lake: Lake, local_lake: Lake, names: Iterator[str], tmp_path: Path
) -> tuple[Repository, Repository]:
    """Make two empty repositories, of which Spark runs the plans of the first."""
    return tuple(
        each.create_repository(next(names), str(tmp_path / each_name), range_records=8)
        for each, each_name in ((lake, "on-spark"), (local_lake, "here"))
    )


@pytest.fixture
def runner(spark: SparkSession) -> SparkRunner:
    return SparkRunner(spark)


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make plans of several tasks out of few records."""
    for runner in (LocalRunner, SparkRunner):
        monkeypatch.setattr(runner, "task_records", lambda *_: TASK_RECORDS)
