"""Merges into branches with staged changes: these stay, and none hides a change of the merge."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import AlreadyCommittedError, DirtyBranchError, NoChangesError
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports import BranchState
from sparklake.testing.lakes import contents, memory_lake, put_all
from sparklake.verbs.base.context import Context
from sparklake.verbs.merges import merge
from sparklake.verbs.merges.three_way import check_staged_changes
from tests.support.delta import TABLE, append
from tests.support.delta_desks import desk_on
from tests.support.lakes import refs_of

MERGES = 12
Tree = dict[str, bytes]


def diverged(repo: Repository, base: Tree, ours: Tree, theirs: Tree) -> Branch:
    """Commit a tree, and other trees on main and on the branch dev."""
    main = repo.branch("main")
    change(main, {}, base)
    dev = repo.create_branch("dev", "main")
    change(main, base, ours)
    change(dev, base, theirs)
    return main


def change(branch: Branch, before: Tree, after: Tree) -> None:
    """Commit the step from one tree to another."""
    put_all(branch, {path: after.get(path) for path in {**before, **after}})
    branch.commit("change", allow_empty=True)


def test_other_staged_changes_stay_staged(repo: Repository) -> None:
    main = diverged(repo, {"a": b"0", "b": b"0"}, {"a": b"0", "b": b"0"}, {"a": b"1", "b": b"0"})
    assert not repo.preview_merge("dev", "main").dirty
    main.put("new", b"2")
    main.delete("b")
    preview = repo.preview_merge("dev", "main")
    assert (preview.dirty, preview.changed, preview.removed) == (True, 1, 0)
    repo.merge("dev", "main")
    assert contents(repo, "main@") == {"a": b"1", "b": b"0"}
    assert contents(repo, "main") == {"a": b"1", "new": b"2"}
    main.commit("the staged changes")
    assert contents(repo, "main@") == {"a": b"1", "new": b"2"}


@pytest.mark.parametrize("staged", [b"2", b"0", None], ids=["changed", "as it is", "deleted"])
def test_staged_changes_to_what_the_merge_changes_are_refused(
    repo: Repository, staged: bytes | None
) -> None:
    """Committed later, they would undo the merge's change, even those that are none now."""
    main = diverged(repo, {"a": b"0"}, {"a": b"0"}, {"a": b"1"})
    put_all(main, {"a": staged})
    before = refs_of(repo)
    with pytest.raises(DirtyBranchError, match=r"'main' has uncommitted changes.*commit or drop"):
        repo.merge("dev", "main")
    assert refs_of(repo) == before
    main.reset()
    repo.merge("dev", "main")


def test_the_order_of_commit_and_merge_makes_no_difference(folder: Path) -> None:
    lake, paths = memory_lake(), [f"p{number}" for number in range(5)]
    for seed in range(30):
        rng = random.Random(seed)
        trees = [
            {path: b"%d" % rng.randrange(3) for path in paths if rng.random() < 0.7}
            for _ in range(2)
        ]
        base, theirs = trees
        ours = {**base, "ours": b"x"}
        staged = {path: b"%d" % rng.randrange(3) for path in rng.sample(paths, rng.randrange(1, 4))}
        repo = lake.create_repository(f"lake-{seed}", str(folder / str(seed)), range_records=2)
        main = diverged(repo, base, ours, theirs)
        put_all(main, staged)
        merged = {**theirs, "ours": b"x"}
        hides = [
            path
            for path, body in staged.items()
            if merged.get(path) != ours.get(path) and body != merged.get(path)
        ]
        try:
            repo.merge("dev", "main")
        except DirtyBranchError:
            assert hides, seed
        except NoChangesError:
            assert theirs == base
        else:
            assert not hides, seed
            main.commit("later", allow_empty=True)
            assert contents(repo, "main@") == {**merged, **staged}


@pytest.mark.parametrize("is_drop", [False, True])
def test_staged_changes_of_a_delta_table_that_the_merge_changes(
    folder: Path, is_drop: bool
) -> None:
    """A drop and an append touch other files, but the rest of them would be no table."""
    desk = desk_on(memory_lake(), folder, 4)
    desk.change("dev", append(3))
    main = desk.main
    if is_drop:
        main.delete_prefix(f"{TABLE}/")
    else:
        desk.repo.create_branch("ours", "main")
        desk.change("ours", append(4))
        main.restore("ours", [f"{TABLE}/"])
    with pytest.raises(DirtyBranchError, match="paths or tables"):
        desk.repo.merge("dev", "main")


@pytest.mark.both_stores
def test_a_table_that_is_written_during_the_merge(
    any_lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log continues the one before the merge, so over the merge it would drop commits."""
    desk = desk_on(any_lake, folder, 4, f"lake-{uuid4().hex[:8]}")
    desk.change("dev", append(3))
    desk.repo.create_branch("ours", "main")
    desk.change("ours", append(4))

    def write_late(context: Context, title: str, state: BranchState, tree: MetaRangeId) -> None:
        check_staged_changes(context, title, state, tree)
        if not state.layers:
            desk.main.restore("ours", [f"{TABLE}/"])

    monkeypatch.setattr(merge, "check_staged_changes", write_late)
    with pytest.raises(DirtyBranchError, match="paths or tables"):
        desk.repo.merge("dev", "main")
    monkeypatch.undo()
    desk.main.commit("the write")
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 3, 4]


def test_merges_do_not_starve_beside_puts_and_commits(lake: Lake, folder: Path) -> None:
    """Each merge succeeds at once, however busy its branch is, and nothing is lost."""
    repo = lake.create_repository("busy", str(folder / "namespace"), range_records=8)
    main, stop, done = repo.branch("main"), Event(), list[str]()
    main.put("first", b"")
    main.commit("first")
    for number in range(MERGES):
        dev = repo.create_branch(f"dev-{number}", "main")
        dev.put(f"merged/{number}", b"")
        dev.commit("change")

    def write(writer: int) -> None:
        number = 0
        while not stop.is_set():
            path = f"written/{writer}-{number}"
            main.put(path, b"")
            done.append(path)
            try:
                main.commit(path)
            except (NoChangesError, AlreadyCommittedError):
                assert path in contents(repo, "main@")
            number += 1

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, writer) for writer in range(2)]
        try:
            for number in range(MERGES):
                repo.merge(f"dev-{number}", "main")
        finally:
            stop.set()
        for each in writers:
            each.result()
    merged = {f"merged/{number}" for number in range(MERGES)}
    assert contents(repo, "main").keys() == {"first", *merged, *done}
    assert len(done) >= 2
