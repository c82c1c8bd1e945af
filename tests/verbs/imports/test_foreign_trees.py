"""Verbs that change no record of a tree that lakeFS wrote, with ranges that end elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5
from pathlib import Path

import pytest

from sparklake import Repository
from sparklake.errors import NoChangesError
from sparklake.graveler.entries import AddressType, Entry
from sparklake.testing.lakes import memory_lake
from tests.support.foreign import foreign_record, restored_tree

NAMES = [f"in/{number:02}" for number in range(12)]


@pytest.fixture
def repo(folder: Path) -> Repository:
    """Is a tree that lakeFS imported: 12 objects in ranges of 5 and 7."""
    (folder / "source").mkdir()
    records = []
    for name in NAMES:
        body, place = name.encode(), folder / "source" / Path(name).name
        place.write_bytes(body)
        address, checksum = f"local://{place}", md5(body).hexdigest()
        kind = AddressType.FULL
        entry = Entry(address, len(body), checksum, 10**9, content_type="", address_type=kind)
        records.append(foreign_record(name, entry))
    return restored_tree(memory_lake(), folder / "ns", records, cuts=[5])


@pytest.mark.parametrize("replace", [False, True])
def test_an_import_of_the_same_objects(repo: Repository, folder: Path, replace: bool) -> None:
    main = repo.branch("main")
    before = main.head
    with pytest.raises(NoChangesError, match="already has all of these objects"):
        main.import_objects(str(folder / "source"), "in", replace=replace)
    assert main.head == before
    (folder / "source" / "03").write_bytes(b"another")
    main.import_objects(str(folder / "source"), "in", replace=replace)
    assert [each.path for each in repo.diff("main~1", "main")] == ["in/03"]


def pick(repo: Repository) -> None:
    repo.branch("main").cherry_pick("dev")


def squash(repo: Repository) -> None:
    repo.merge("dev", "main", squash=True)


def merge_paths(repo: Repository) -> None:
    repo.merge("dev", "main", paths=["in/"])


@pytest.mark.parametrize("verb", [pick, squash, merge_paths])
def test_a_change_that_is_there_already(
    repo: Repository, verb: Callable[[Repository], None]
) -> None:
    """Dev has removed an object, which main still has, and has it again."""
    dev = repo.create_branch("dev", "main")
    dev.delete("in/07")
    dev.commit("removed")
    dev.restore("main", ["in/07"])
    dev.commit("restored")
    before = repo.branch("main").head
    with pytest.raises(NoChangesError):
        verb(repo)
    assert repo.branch("main").head == before
