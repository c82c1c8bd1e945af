"""A name means one thing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparklake import Repository
from sparklake.errors import AlreadyExistsError, InvalidKeyError
from sparklake.testing.lakes import memory_lake


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


def test_a_tag_and_a_branch_have_different_names(repo: Repository) -> None:
    repo.create_tag("v1", "main")
    with pytest.raises(AlreadyExistsError, match="tag 'v1'"):
        repo.create_branch("v1", "main")
    with pytest.raises(AlreadyExistsError, match="branch 'main'"):
        repo.create_tag("main", "main")


def test_an_address_stays_in_the_namespace(repo: Repository) -> None:
    address = f"{repo.info.storage_namespace}/../elsewhere/x"
    row = {"path": "a", "size": 1, "checksum": "c", "address": address}
    with pytest.raises(InvalidKeyError):
        repo.branch("main").stage(pa.Table.from_pylist([row]))
    assert not repo.branch("main").is_dirty
