"""Verbs that lose a race: what they read again, and how they queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Branch, Repository
from sparklake.errors import NoChangesError
from sparklake.graveler.ports import BranchMove
from sparklake.testing.lakes import commit_all, contents, memory_lake
from sparklake.testing.memory import MemoryBranches

OBJECTS: dict[str, bytes | None] = {f"k/{number:03d}": b"%d" % number for number in range(200)}


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = memory_lake().create_repository("lake", str(tmp_path / "namespace"), range_records=8)
    commit_all(made.branch("main"), OBJECTS, "base")
    assert len(made.tree("main").ranges) > 15
    return made


def ids(repo: Repository, ref: str) -> list[str]:
    return [each.id for each in repo.tree(ref).ranges]


def changed(repo: Repository, branch: str, path: str, body: bytes) -> None:
    """Commit one change, as another process does."""
    commit_all(Branch(repo._context, branch), {path: body}, path)


@contextmanager
def overtaken(repo: Repository, act: Callable[[], object]) -> Iterator[list[list[str]]]:
    """Let another writer act before the first move of a branch; notes what each attempt reads.

    The reads of an attempt are those of ranges, from the move before it to its own.
    """
    move, attempts = MemoryBranches.move, list[list[str]]()
    with pytest.MonkeyPatch.context() as patch, recorded_reads() as reads:

        def noting(branches: MemoryBranches, wanted: BranchMove) -> None:
            attempts.append(list(reads))
            if len(attempts) == 1:
                patch.setattr(MemoryBranches, "move", move)
                act()
                patch.setattr(MemoryBranches, "move", noting)
            reads.clear()
            move(branches, wanted)

        patch.setattr(MemoryBranches, "move", noting)
        yield attempts


def test_a_commit_that_lost_reads_what_has_moved(repo: Repository) -> None:
    main = repo.branch("main")
    ours = {f"k/{number:03d}": b"ours" for number in range(0, 200, 40)}
    first = ids(repo, "main")
    base = repo.resolve("main").id

    def others() -> None:
        """Merge, since another commit would take what is staged."""
        repo.create_branch("dev", base)
        changed(repo, "dev", "k/041", b"theirs")
        move_to(repo, "main", "dev")

    for path, body in ours.items():
        main.put(path, body)
    with overtaken(repo, others) as attempts:
        made = main.commit("ours")
    moved = {*ids(repo, "dev")} - {*first}
    assert {*attempts[0]} <= {*first}
    assert len(attempts) == 2
    read = [each for each in attempts[1] if each != repo.tree("dev").id]
    assert sorted(read) == sorted(moved)
    assert contents(repo, made.id) == {**OBJECTS, **ours, "k/041": b"theirs"}


def move_to(repo: Repository, branch: str, ref: str) -> None:
    """Move a branch to a commit that is there already, whatever is staged."""
    head, target = (repo.resolve(each) for each in (f"{branch}@", ref))
    repo._context.refs.branches.move(
        BranchMove(branch, head.id, target.id, "merge", "they", fence=0)
    )


def test_a_merge_that_lost_reads_what_has_moved(repo: Repository) -> None:
    for branch, body in (("dev", b"dev"), ("other", b"other")):
        repo.create_branch(branch, "main")
        put = {f"k/{number:03d}": body for number in range(0 if body == b"dev" else 1, 200, 40)}
        commit_all(repo.branch(branch), put, branch)
    repo.merge("other", "main")
    before = {*ids(repo, "main")}
    with overtaken(repo, lambda: changed(repo, "main", "k/021", b"theirs")) as attempts:
        repo.merge("dev", "main")
    assert len(attempts) == 2
    assert len(attempts[0]) > 10
    # Only ranges that both sides changed are searched for replaced folders again.
    again = [each for each in attempts[1] if each in {*before, *ids(repo, "dev")}]
    assert len(again) <= 10
    found = contents(repo, "main")
    assert (found["k/021"], found["k/040"], found["k/041"]) == (b"theirs", b"dev", b"other")


def test_an_import_that_lost_reads_nothing_again(repo: Repository, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"imported")
    with overtaken(repo, lambda: changed(repo, "main", "k/001", b"theirs")) as attempts:
        repo.branch("main").import_objects(str(tmp_path / "source"), "k/1")
    assert len(attempts) == 2
    # What the other one has written is still in memory. The import looks up a table around it.
    assert len(attempts[1]) <= 1
    assert contents(repo, "main")["k/001"] == b"theirs"
    assert contents(repo, "main")["k/1/a"] == b"imported"


def test_what_the_winner_has_done_too_is_no_change(repo: Repository) -> None:
    main = repo.branch("main")
    main.put("k/001", b"same")
    repo.create_branch("dev", "main@")
    changed(repo, "dev", "k/001", b"same")
    with overtaken(repo, lambda: move_to(repo, "main", "dev")), pytest.raises(NoChangesError):
        main.commit("ours")
    assert not main.is_dirty


def test_who_comes_while_others_queue_waits_for_a_turn(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, asked = MemoryBranches.turn, Event()

    def asking(branches: MemoryBranches, name: str, seconds: float) -> AbstractContextManager[None]:
        asked.set()
        return turn(branches, name, seconds)

    branches = repo._context.refs.branches
    repo.create_branch("dev", "main")
    changed(repo, "dev", "k/001", b"dev")
    with ThreadPoolExecutor(1) as threads:
        with branches.turn("main", 60):
            monkeypatch.setattr(MemoryBranches, "turn", asking)
            merge = threads.submit(repo.merge, "dev", "main")
            assert asked.wait(60)
            assert repo.resolve("main").message == "base"
        assert merge.result(60) == repo.resolve("main")
    assert not branches.is_turn_held("main")


def test_who_has_not_lost_does_not_queue(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryBranches, "turn")
    changed(repo, "main", "k/001", b"main")
    assert contents(repo, "main")["k/001"] == b"main"
