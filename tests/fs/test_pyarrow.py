"""What pyarrow asks of every file system: its own tests, which it ships."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyarrow.tests import test_fs
from pyarrow.tests.conftest import pickle_module
from pyarrow.tests.test_fs import pickle_with_and_without_subtree_filesystem

from campaigns.postgres import fresh_database
from sparklake.fs import SparklakeFileSystem
from sparklake.testing.lakes import postgres_lake

__all__ = ["pickle_module", "pickle_with_and_without_subtree_filesystem"]

EXCEPTIONS = {"test_create_dir": "a folder exists as long as an object is below it"}
"""The tests that do not apply, and why. docs/fsspec.md states the same."""

for _name, _test in vars(test_fs).items():
    if _name.startswith("test_") and "fs" in inspect.signature(_test).parameters:
        if _name in EXCEPTIONS:
            _test = pytest.mark.skip(EXCEPTIONS[_name])(_test)
        globals()[_name] = _test


@pytest.fixture(scope="module")
def dsn(server_dsn: str) -> Iterator[str]:
    with fresh_database(server_dsn) as fresh:
        yield fresh


@pytest.fixture
def fs(dsn: str, folder: Path) -> Iterator[PyFileSystem]:
    with postgres_lake(dsn) as lake:
        lake.create_repository(folder.name, str(folder / "namespace"))
        yield PyFileSystem(FSSpecHandler(SparklakeFileSystem(dsn=dsn, skip_instance_cache=True)))


@pytest.fixture
def pathfn(folder: Path) -> Callable[[str], str]:
    return f"{folder.name}/main/".__add__


@pytest.fixture
def allow_move_dir() -> bool:
    return True


@pytest.fixture
def allow_append_to_file() -> bool:
    return False
