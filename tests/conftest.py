"""What all tests share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from sparklake.stores.cache.counts import TALLY

# Of this machine's cache no test may take from, or leave in it, anything.
os.environ.setdefault("SPARKLAKE_CACHE_BYTES", "0")

pytest_plugins = ["tests.support.spark", "tests.support.cluster", "tests.support.buckets"]

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

# Each takes minutes: where tests run in several processes, the others are done meanwhile.
LONGEST = (
    "tests/spark/test_connect.py",
    "tests/spark/test_cluster.py",
    "tests/jobs/test_submit.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda each: not each.nodeid.startswith(LONGEST))


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
