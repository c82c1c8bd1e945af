"""A lake on memory, and file systems on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from pyarrow.tests.conftest import groups

from sparklake import Lake, Repository
from sparklake.fs import SparklakeFileSystem
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake


def pytest_configure(config: pytest.Config) -> None:
    for each in groups:
        config.addinivalue_line("markers", f"{each}: a mark of pyarrow's own tests")


fsspec.register_implementation("lakefs", SparklakeFileSystem, clobber=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as path:
        yield path


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


@pytest.fixture
def repo(lake: Lake, folder: Path) -> Repository:
    return lake.create_repository("repo", str(folder / "namespace"))


@pytest.fixture
def fs(lake: Lake, repo: Repository) -> SparklakeFileSystem:
    return SparklakeFileSystem(lake=lake, skip_instance_cache=True)
