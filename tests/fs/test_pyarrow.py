"""pyarrow's own tests of a file system.

A folder exists as long as an object is below it. So a folder that these tests create has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyarrow.tests import test_fs
from pyarrow.tests.conftest import builtin_pickle, cloudpickle, pickle_module
from pyarrow.tests.test_fs import pickle_with_and_without_subtree_filesystem

from campaigns.postgres import fresh_database
from sparklake.fs import SparklakeFileSystem

__all__ = [
    "builtin_pickle",
    "cloudpickle",
    "pickle_module",
    "pickle_with_and_without_subtree_filesystem",
]

NUMBERS = count()
EXCEPTIONS = {
    "test_delete_dir_contents": "a folder without contents no longer exists",
    "test_get_file_info_with_selector": "it counts the object that makes a folder exist, too",
    "test_open_append_stream": "expects pyarrow's NotImplementedError, and gets Python's",
}
"""The tests that fail, as docs/fsspec.md says. One that passes is an error."""

for _name, _test in vars(test_fs).items():
    if _name.startswith("test_") and "fs" in inspect.signature(_test).parameters:
        if _name in EXCEPTIONS:
            _test = pytest.mark.xfail(reason=EXCEPTIONS[_name])(_test)
        globals()[_name] = _test


class Handler(FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """A handler that creates folders with an object in them."""

    def create_dir(self, path: str, recursive: bool) -> None:
        self.fs.touch(f"{path.rstrip('/')}/object")


@pytest.fixture(scope="module")
def remote(server_dsn: str) -> Iterator[SparklakeFileSystem]:
    """Yield a file system that can be pickled."""
    with fresh_database(server_dsn) as dsn:
        fs = SparklakeFileSystem(dsn=dsn)
        with fs.lake:
            yield fs
    SparklakeFileSystem.clear_instance_cache()


@pytest.fixture
def fs(remote: SparklakeFileSystem) -> PyFileSystem:
    return PyFileSystem(Handler(remote))


@pytest.fixture
def pathfn(remote: SparklakeFileSystem, folder: Path) -> Callable[[str], str]:
    name = f"repo-{next(NUMBERS)}"
    remote.lake.create_repository(name, str(folder / "namespace"))
    return f"{name}/main/".__add__


@pytest.fixture
def allow_move_dir() -> bool:
    return True


@pytest.fixture
def allow_append_to_file() -> bool:
    return False
