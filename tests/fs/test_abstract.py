"""fsspec's own tests of a file system.

It is asked without empty directories: a directory is there as long as an object is below it. So the
tests that make an empty one, and then see it, put an object into it first, as they do for S3.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

from sparklake import Lake, Repository
from sparklake.fs import SparklakeFileSystem


class Fixtures(AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, lake: Lake, repo: Repository) -> SparklakeFileSystem:
        return SparklakeFileSystem(lake=lake, skip_instance_cache=True)

    @pytest.fixture
    def fs_path(self) -> str:
        return "repo/main/below"

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


system = pytest.mark.system


class TestCopy(AbstractCopyTests, Fixtures):  # type: ignore[misc]
    test_copy_glob_edge_cases = system(AbstractCopyTests.test_copy_glob_edge_cases)


class TestGet(AbstractGetTests, Fixtures):  # type: ignore[misc]
    test_get_glob_edge_cases = system(AbstractGetTests.test_get_glob_edge_cases)


class TestPut(AbstractPutTests, Fixtures):  # type: ignore[misc]
    test_put_glob_edge_cases = system(AbstractPutTests.test_put_glob_edge_cases)


class TestOpen(AbstractOpenTests, Fixtures):  # type: ignore[misc]
    pass


class TestPipe(AbstractPipeTests, Fixtures):  # type: ignore[misc]
    pass
