"""A lake in Postgres for campaigns against it. Every test of this folder is a system test."""

from __future__ import annotations

import pytest

from tests.verbs.conftest import dsn, folder, scratch

__all__ = ["dsn", "folder", "scratch"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/system/"):
            item.add_marker(pytest.mark.system)
