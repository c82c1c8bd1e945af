"""Equal content at several addresses: what a version names is what was staged, or kept for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import AddressConflictError, NoChangesError, RaceLostError
from sparklake.testing.lakes import contents, stage_table
from tests.support.interleaved_calls import just_before

BODY = b"body"
MD5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()


@pytest.fixture
def repo(small_lake: Lake, tmp_path: Path) -> Repository:
    return small_lake.create_repository("repo", str(tmp_path / "ns"), range_records=1000)


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


@pytest.fixture
def outside(tmp_path: Path) -> Callable[[str], str]:
    """Return the function that writes an object of others and return its address."""

    def write(name: str) -> str:
        (tmp_path / name).write_bytes(BODY)
        return f"file://{tmp_path / name}"

    return write


def remove(address: str) -> None:
    Path(address.removeprefix("file://")).unlink()


def stage(branch: Branch, address: str, path: str = "k", **more: Any) -> None:
    row = {"path": path, "size": len(BODY), "checksum": MD5, "address": address, **more}
    branch.stage(stage_table([row]))


def address_of(repo: Repository, ref: str, path: str = "k") -> str:
    return repo.stat(ref, path).address


def test_what_was_dropped_does_not_decide_the_address(
    repo: Repository, main: Branch, outside: Callable[[str], str]
) -> None:
    first, second = outside("a"), outside("b")
    stage(main, first)
    main.reset()
    with pytest.raises(AddressConflictError, match="user metadata") as raised:
        stage(main, second)
    assert (raised.value.path, raised.value.address) == ("k", first)
    assert f"or use the address {first}" in str(raised.value)
    remove(first)
    with pytest.raises(AddressConflictError) as raised:
        stage(main, second)
    assert "or use the address" not in str(raised.value)
    with pytest.raises(NoChangesError):
        main.commit("nothing was staged")
    # The way forward that the message names.
    stage(main, second, metadata=[("copy", "2")])
    main.commit("second")
    assert address_of(repo, "main") == second
    assert contents(repo, "main") == {"k": BODY}


def test_the_address_that_was_dropped_may_be_staged_again(
    repo: Repository, main: Branch, outside: Callable[[str], str]
) -> None:
    first = outside("a")
    stage(main, first)
    main.reset()
    stage(main, first.replace("file://", "file://localhost"))  # another spelling
    main.commit("first")
    assert contents(repo, "main") == {"k": BODY}


def test_a_commit_in_vain_does_not_decide_the_address(
    repo: Repository, main: Branch, outside: Callable[[str], str]
) -> None:
    """A range of the tree is left over, not one of a staged run."""
    first, second = outside("a"), outside("b")
    main.put("j", b"other")
    stage(main, first)
    branches = type(repo._context.refs.branches)
    with just_before(branches, "move", main.reset), pytest.raises(RaceLostError):
        main.commit("in vain")
    rows = [{"path": path, "size": len(BODY), "checksum": MD5, "address": second} for path in "kl"]
    main.stage(stage_table(rows))
    main.put("j", b"other")
    main.delete("l")
    with pytest.raises(AddressConflictError):
        main.commit("refused")
    stage(main, second, metadata=[("copy", "2")])
    main.commit("second")
    remove(first)
    assert contents(repo, "main") == {"j": b"other", "k": BODY}


def test_an_object_that_is_put_does_not_become_a_dropped_one(
    repo: Repository, main: Branch, outside: Callable[[str], str]
) -> None:
    first = outside("a")
    stage(main, first, content_type="application/octet-stream")
    main.reset()
    main.put("k", BODY)
    with pytest.raises(AddressConflictError):
        main.commit("in vain")
    assert contents(repo, "main") == {"k": BODY}, "it stays staged"
    main.put("k", BODY, {"copy": "2"})
    main.commit("second")
    remove(first)
    assert contents(repo, "main") == {"k": BODY}


def test_a_staged_object_of_another_branch_decides_nothing(
    repo: Repository, main: Branch, outside: Callable[[str], str]
) -> None:
    first, second = outside("a"), outside("b")
    dev = repo.create_branch("dev", "main")
    stage(main, first)
    with pytest.raises(AddressConflictError):
        stage(dev, second)
    main.commit("first")
    stage(dev, second)  # by now a version names the first one, whose owner has to keep it
    assert address_of(repo, "dev") == first


def test_what_a_version_names_stands_for_equal_content(
    repo: Repository, main: Branch, outside: Callable[[str], str]
) -> None:
    first, second, third = outside("a"), outside("b"), outside("c")
    stage(main, first)
    main.commit("first")
    stage(main, second)
    with pytest.raises(NoChangesError):
        main.commit("equal content is no change")
    main.put("k", b"other")
    main.commit("other")
    stage(main, third)
    main.commit("as it was")
    assert address_of(repo, "main") == first
    main.put("k", b"other")
    main.commit("other again")
    remove(first)
    with pytest.raises(AddressConflictError):
        stage(main, third)
    stage(main, third, metadata=[("copy", "2")])
    main.commit("third")
    assert contents(repo, "main") == {"k": BODY}


def test_a_version_that_has_expired_names_nothing(
    repo: Repository, main: Branch, outside: Callable[[str], str]
) -> None:
    first, second = outside("a"), outside("b")
    stage(main, first)
    main.commit("first")
    main.put("k", b"other")
    main.commit("other")
    repo.settings.set_retention(0)
    repo.collect_garbage()
    with pytest.raises(AddressConflictError):
        stage(main, second)


def test_branches_that_name_different_copies_can_be_merged(
    repo: Repository, main: Branch, outside: Callable[[str], str]
) -> None:
    first, second = outside("a"), outside("b")
    dev = repo.create_branch("dev", "main")
    main.put("j", b"1")
    stage(main, first)
    main.commit("first")
    stage(dev, first)
    dev.commit("the same")
    repo.merge("main", "dev")
    assert contents(repo, "dev") == {"j": b"1", "k": BODY}
    other = repo.create_branch("other", "main~1")
    stage(other, second, "l")
    other.commit("second")
    repo.merge("other", "main")
    assert contents(repo, "main") == {"j": b"1", "k": BODY, "l": BODY}


def test_an_import_names_what_it_was_given(
    repo: Repository, main: Branch, tmp_path: Path, outside: Callable[[str], str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        outside(f"{name}/k")
    main.import_objects(str(tmp_path / "one"))
    with pytest.raises(NoChangesError):
        main.import_objects(str(tmp_path / "two"))
    main.hard_reset("main~1")
    with pytest.raises(AddressConflictError):
        main.import_objects(str(tmp_path / "two"))
    row = {"path": "k", "size": len(BODY), "checksum": MD5, "metadata": [("copy", "2")]}
    main.import_objects(stage_table([{**row, "address": f"file://{tmp_path}/two/k"}]))
    remove(f"file://{tmp_path}/one/k")
    assert contents(repo, "main") == {"k": BODY}
