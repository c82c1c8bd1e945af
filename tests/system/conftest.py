"""A lake in Postgres for campaigns against it. Every test of this folder is a system test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklake import Lake
from sparklake.testing.lakes import postgres_lake
from tests.support.mortals import Mortals, mortal_verbs
from tests.verbs.conftest import dsn, folder, scratch

__all__ = ["dsn", "folder", "scratch"]


@pytest.fixture(scope="module")
def mortals(dsn: str, scratch: Path) -> Iterator[Mortals]:
    with mortal_verbs(dsn) as started:
        yield started


@pytest.fixture(scope="module")
def survivor(dsn: str) -> Iterator[Lake]:
    """Is a lake that waits for no lock longer than a moment."""
    with postgres_lake(f"{dsn} options='-c lock_timeout=5s'") as lake:
        yield lake


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/system/"):
            item.add_marker(pytest.mark.system)
