"""The shared Postgres of the ref-store tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from campaigns.postgres import fresh_database
from sparklake.graveler.ports import RefStore
from sparklake.stores.postgres import connect_ref_store
from sparklake.testing.memory import MemoryRefStore


@pytest.fixture
def empty_dsn(server_dsn: str) -> Iterator[str]:
    with fresh_database(server_dsn) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def shared_dsn(server_dsn: str) -> Iterator[str]:
    with fresh_database(server_dsn) as dsn:
        yield dsn


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[RefStore]:
    if request.param == "memory":
        yield MemoryRefStore()
        return
    opened = connect_ref_store(request.getfixturevalue("shared_dsn"))
    for info in opened.list_repositories():
        opened.delete_repository(info.name, force=True)
    yield opened
    opened.close()
