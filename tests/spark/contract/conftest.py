from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import make_conninfo
from pyspark import cloudpickle

import sparklake
from sparklake import Lake, Repository
from sparklake.testing.lakes import commit_all
from tests.support import runner_contract
from tests.support.lakes import put_sizes
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark 4 has sources in Python for, and what Spark 3.5 is told in their place.
collect_ignore = ["test_stream_reads.py"] if IS_3 else ["test_formats_before_4.py"]

SECRET = "pa55w0rd-that-nobody-sees"

PATHS = [f"k/{number:03}" for number in range(150)]


@pytest.fixture(scope="module", autouse=True)
def _bodies_of_tests_are_shipped(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ships the task bodies of tests whole: workers cannot import them."""
    for module in (request.module, runner_contract):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (request.module, runner_contract):
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def grown(repo: Repository) -> Repository:
    main = repo.branch("main")
    put_sizes(main, dict.fromkeys(PATHS, 1))
    main.commit("all", committer="joe", metadata={"ticket": "1234"})
    commit_all(main, {"k/007": b"seven", "other": b"o", "k/001": None}, "some, ünd more")
    return repo


@pytest.fixture
def settings_home(lake_dsn: str, tmp_path: Path) -> Path:
    """Is a home whose settings file has the DSN; also on the server of Spark Connect."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "sparklake.toml").write_text(f"dsn = '''{make_conninfo(lake_dsn, password=SECRET)}'''")
    return home


@pytest.fixture
def lake_of_home(spark: SparkSession, settings_home: Path) -> Iterator[Lake]:
    """Open the lake by a settings file, as a process on the server of Spark Connect does."""
    with sparklake.connect(home=settings_home, spark=spark) as lake:
        yield lake


@pytest.fixture
def registered(lake_of_home: Lake) -> Lake:
    lake_of_home.register()
    return lake_of_home
