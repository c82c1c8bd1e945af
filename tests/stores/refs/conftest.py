"""The Postgres that the tests of ref stores share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import fresh_database, postgres_server


@pytest.fixture(scope="session")
def server_dsn() -> Iterator[str]:
    with postgres_server() as dsn:
        yield dsn


@pytest.fixture
def empty_dsn(server_dsn: str) -> Iterator[str]:
    with fresh_database(server_dsn) as dsn:
        yield dsn
