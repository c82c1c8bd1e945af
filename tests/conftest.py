"""What all tests share."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from benchmarks.spark import JARS
from sparklake.stores.cache.counts import TALLY
from sparklake.testing.folders import memory_root
from tests.support.java_classes import SHORT_LIVED

# Of this machine's cache no test may take from, or leave in it, anything.
os.environ.setdefault("SPARKLAKE_CACHE_BYTES", "0")

# A session that sparklake starts would download Delta's jars.
os.environ.setdefault("SPARKLAKE_JARS", str(JARS))

# For every JVM that a test starts as a user would.
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)

# `make test-airflow` and `make test-dbt` run these in their environments, without this file.
collect_ignore = ["airflow", "dbt"]

pytest_plugins = [
    "tests.support.spark",
    "tests.support.cluster",
    "tests.support.s3_fixtures",
    "tests.support.cloud_fixtures",
    "tests.support.postgres",
]

# Who starts the tests in the background may have them ignore interrupts, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Generated cases open files, so that the first one of a test may be slow; no deadline therefore.
# In CI the same cases run each time, and a failure prints how to repeat it.
settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def _use_memory_for_temporary_files() -> Path | None:
    """Create the folder of a whole run, for pytest too: nothing waits for a disk.

    Its name is short, because sockets need short paths.
    """
    root = memory_root()
    if root is None or "PYTEST_XDIST_WORKER" in os.environ:  # Workers inherit the folder.
        return None
    folder = Path(tempfile.mkdtemp(prefix="sl-", dir=root))
    folder.chmod(0o1777)  # As the system's own: a Postgres of root runs as another account.
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    return folder


_FOLDER = _use_memory_for_temporary_files()


def pytest_unconfigure() -> None:
    if _FOLDER is not None:
        shutil.rmtree(_FOLDER, ignore_errors=True)


# The parts of a run that start a JVM, or take long, come first: processes that are done with them
# share the small rest.
FIRST = (
    *("tests/spark/test_connect.py", "tests/spark/", "tests/system/", "tests/jobs/"),
    "tests/campaigns/test_simulator.py",
)

# The files that share a Spark session. One process runs all of Delta's tests and another one the
# rest, because each JVM runs its first queries slowly.
DELTA = re.compile(r"tests/spark/contract/test_(delta_|feature_|table_histories|vector_)")
WITH_SESSION = re.compile(
    r"tests/(spark/(contract/|test_(choice|exports|purges|quality|row_merges|s3_reads|s3_writes)\.)"
    r"|jobs/test_jobs\.|cli/test_(spark_rows|sql)\.|docs/test_spark_pages\.)"
)

# The tests of this file share nothing, and take minutes together: any process may run any of them.
APART = re.compile(r"tests/campaigns/test_simulator\.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        if WITH_SESSION.match(item.nodeid):
            return 1 if DELTA.match(item.nodeid) else 2
        found = (at for at, each in enumerate(FIRST) if item.nodeid.startswith(each))
        return next((2 * at for at in found), 2 * len(FIRST))

    items.sort(key=place)


class _Scheduling(LoadFileScheduling):
    """A distribution by file to processes, because the tests of a file share servers."""

    def _split_scope(self, nodeid: str) -> str:
        if APART.match(nodeid):
            return nodeid
        if DELTA.match(nodeid):
            return "session of Delta"
        return "session" if WITH_SESSION.match(nodeid) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return _Scheduling(config, log)


@pytest.fixture(autouse=True)
def _fresh_tally() -> None:
    """Let every test count its own reads: tasks report all that their process has counted."""
    TALLY.begin()


@pytest.fixture(autouse=True)
def _no_stray_jvm(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no test start a JVM but those of Spark, which give it the jars that others need."""
    before = _gateway()
    yield
    if request.node.get_closest_marker("spark") is None:
        assert _gateway() is before, "mark it with `spark`, and let it use the fixture"


def _gateway() -> object:
    context = sys.modules.get("pyspark.core.context") or sys.modules.get("pyspark.context")
    return context and context.SparkContext._gateway
