"""A Postgres for each test process, and folders within reach of its account."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.postgres import embedded_home, home_dsn


@pytest.fixture(scope="session")
def server_home() -> Iterator[Path]:
    """Yield the home of this process's embedded Postgres."""
    with embedded_home() as home:
        yield home


@pytest.fixture(scope="session")
def server_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the DSN of this process's server.

    SPARKLAKE_TEST_DSN names another server, with a role that has all permissions.
    """
    dsn_override = os.environ.get("SPARKLAKE_TEST_DSN")
    if dsn_override:
        yield dsn_override
        return
    with home_dsn(request.getfixturevalue("server_home")) as dsn:
        yield dsn
