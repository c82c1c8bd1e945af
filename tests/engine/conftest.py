"""Local runners, with one thread pool for the whole test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparklake.engine.base import Runner
from sparklake.engine.threads import LocalRunner, ThreadRunner


@pytest.fixture(scope="session")
def threads() -> Iterator[ThreadRunner]:
    runner = ThreadRunner(2)
    yield runner
    runner.close()


@pytest.fixture(params=["local", "threads"])
def runner(request: pytest.FixtureRequest) -> Runner:
    """Return each local runner."""
    return LocalRunner() if request.param == "local" else request.getfixturevalue("threads")
