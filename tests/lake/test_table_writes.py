"""What a write means for older files holds for what is there when it lands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparklake import Repository
from sparklake.errors import AlreadyExistsError
from sparklake.graveler.ports import StoredObject
from sparklake.stores.objects import open_store
from sparklake.verbs import writes
from sparklake.verbs.writes import WriteMode
from tests.support.lakes import memory_lake

FOLDER = "tables/x/"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


def written(repo: Repository, name: str) -> tuple[str, list[StoredObject]]:
    """Returns the place and the files of a write, as Spark would leave them."""
    store, place = open_store(repo.info.storage_namespace), f"data/{name}"
    store.put_if_absent(f"{place}/part-{name}", name.encode())
    return place, list(store.list(f"{place}/"))


def stage(repo: Repository, name: str, mode: WriteMode) -> None:
    place, files = written(repo, name)
    writes.until_it_lands(
        lambda: writes._stage(repo._context, "main", FOLDER, place, files, mode, 0)
    )


def files_of(repo: Repository) -> list[str]:
    return [each.path.removeprefix(FOLDER) for each in repo.objects("main", FOLDER)]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Lets something happen between a write's look at the table and its landing."""
    listed = writes.list_objects

    def once(*arguments: object) -> object:
        monkeypatch.setattr(writes, "list_objects", listed)
        result = list(listed(*arguments))
        act()
        return iter(result)

    monkeypatch.setattr(writes, "list_objects", once)


def test_of_two_overwrites_one_is_left(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    stage(repo, "old", WriteMode.APPEND)
    meanwhile(monkeypatch, lambda: stage(repo, "bob", WriteMode.OVERWRITE))
    stage(repo, "alice", WriteMode.OVERWRITE)
    assert files_of(repo) == ["part-alice"]


def test_an_overwrite_sees_what_was_committed_meanwhile(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit() -> None:
        stage(repo, "bob", WriteMode.APPEND)
        repo.branch("main").commit("bob's")

    meanwhile(monkeypatch, commit)
    stage(repo, "alice", WriteMode.OVERWRITE)
    assert files_of(repo) == ["part-alice"]


def test_of_two_first_writes_one_is_refused(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: stage(repo, "bob", WriteMode.ERROR_IF_EXISTS))
    with pytest.raises(AlreadyExistsError):
        stage(repo, "alice", WriteMode.ERROR_IF_EXISTS)
    assert files_of(repo) == ["part-bob"]


def test_appends_both_land(repo: Repository) -> None:
    stage(repo, "alice", WriteMode.APPEND)
    stage(repo, "bob", WriteMode.APPEND)
    assert files_of(repo) == ["part-alice", "part-bob"]
