from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock
from uuid import uuid4

import pytest

from campaigns.postgres import fresh_database
from sparklake import Branch, Lake, Repository
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake, postgres_lake
from tests.support.delta_desks import Desk, desk_on
from tests.support.lakes import assert_healthy
from tests.support.s3_fixtures import Bucket


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the Postgres twin of a test on memory to `make test-slow`, unless it is marked.

    The contract of ref stores shows that both are alike.
    """
    for item in items:
        call = getattr(item, "callspec", None)
        twin = call is not None and "postgres" in call.params.values()
        here = item.nodeid.startswith(("tests/verbs/", "tests/scenarios/"))
        if twin and here and not item.get_closest_marker("both_stores"):
            item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(scope="module")
def dsn(server_dsn: str) -> Iterator[str]:
    """Is a lake's Postgres; tests of a module share it, each with repositories of its own."""
    with fresh_database(server_dsn) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def lake(dsn: str) -> Iterator[Lake]:
    with postgres_lake(dsn) as opened:
        yield opened


@pytest.fixture
def small_lake() -> Lake:
    """Is a lake without any server."""
    return memory_lake()


@pytest.fixture(params=["memory", "postgres"])
def any_lake(request: pytest.FixtureRequest) -> Lake:
    """Is a lake on memory, and one on Postgres."""
    found: Lake = request.getfixturevalue("small_lake" if request.param == "memory" else "lake")
    return found


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    """Is an empty repository whose trees have many ranges."""
    name = f"repo-{uuid4().hex}"
    return any_lake.create_repository(name, str(folder / "namespace"), range_records=4)


@pytest.fixture
def healthy_at_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check at the end of a test that its repository is healthy."""
    if "desk" in request.fixturenames:
        desk: Desk = request.getfixturevalue("desk")
        found = desk.repo
    else:
        found = request.getfixturevalue("repo")
    yield
    assert_healthy(found)


@pytest.fixture
def main(repo: Repository) -> Branch:
    """Is the default branch of the repository."""
    return repo.branch("main")


@pytest.fixture
def bucket(s3_env: dict[str, str]) -> Bucket:
    """Is a bucket of this test alone."""
    from sparklake.testing.s3_server import aws_client, fresh_bucket

    return Bucket(aws_client("s3", s3_env), fresh_bucket(s3_env))


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """Keep temporary files on the file system of the namespaces, so that links work."""
    with memory_folder() as folder, mock.patch.dict(os.environ, SPARKLAKE_SCRATCH=str(folder)):
        yield folder


@pytest.fixture
def folder(scratch: Path) -> Iterator[Path]:
    """Is a folder where nothing waits for a disk."""
    with memory_folder() as made:
        yield made


@pytest.fixture(
    params=[
        pytest.param(1, id="small ranges"),
        pytest.param(4096, id="large ranges", marks=pytest.mark.exhaustive),
    ]
)
def desk(request: pytest.FixtureRequest, folder: Path) -> Desk:
    """Have logs that span many ranges, and one that is in a range with all else."""
    return desk_on(memory_lake(), folder, request.param)
