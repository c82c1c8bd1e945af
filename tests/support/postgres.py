"""A Postgres for tests, one per test process, and folders that its account can reach."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.postgres import embedded_home, home_dsn


@pytest.fixture(scope="session")
def server_home() -> Iterator[Path]:
    """Yield the home of the embedded Postgres of this process."""
    with embedded_home() as home:
        yield home


@pytest.fixture(scope="session")
def server_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the DSN of the server of this process.

    SPARKLAKE_TEST_DSN names another server, with a role that has all permissions.
    """
    given = os.environ.get("SPARKLAKE_TEST_DSN")
    if given:
        yield given
        return
    with home_dsn(request.getfixturevalue("server_home")) as dsn:
        yield dsn
