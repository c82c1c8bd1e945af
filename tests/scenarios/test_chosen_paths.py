"""Merges, commits and restores of chosen paths, against dicts of what is there and staged."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Branch, Lake, Repository
from sparklake.engine.threads import LocalRunner
from sparklake.errors import (
    AlreadyCommittedError,
    DirtyBranchError,
    InvalidInputError,
    InvalidKeyError,
    InvalidRefError,
    MergeConflictError,
    NoChangesError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from sparklake.testing.memory import MemoryBranches, MemoryStaging
from sparklake.verbs.base import staging
from tests.support.interleaved_calls import just_before
from tests.support.lakes import fingerprint, put_sizes, refused, stage_sizes
from tests.support.seeds import seeds

PATHS = ["a", "a.", "a/b", "a/b/c", "a/é", "a0", "b", "b/a", *(f"n/{n:02}" for n in range(20))]
CHOICES = ["a", "a/", "a/b", "a/b/", "b/", "n/", "n/07", "n/1", "é/", "nothing"]

Tree = dict[str, int]
Staged = dict[str, "int | None"]


def new_repository(lake: Lake, folder: Path) -> Repository:
    name = f"r{uuid4().hex[:12]}"
    return lake.create_repository(name, str(folder / name), range_records=2)


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    made = new_repository(small_lake, folder)
    put_sizes(made.branch("main"), dict.fromkeys(PATHS[::2], 1))
    made.branch("main").commit("base")
    return made


def sizes(repo: Repository, ref: str) -> Tree:
    return {each.path: each.size for each in repo.objects(ref)}


def after(base: Tree, changes: Staged) -> Tree:
    found = {**base, **changes}
    return {path: size for path, size in found.items() if size is not None}


def is_chosen(path: str, chosen: list[str]) -> bool:
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in chosen)


def changes_of(rng: random.Random) -> Staged:
    some = rng.sample(PATHS, rng.randint(1, 12))
    return {path: rng.choice([None, 2, 3]) for path in some}


def commit_changes(branch: Branch, changes: Staged) -> None:
    put_sizes(branch, changes)
    branch.commit("changes", allow_empty=True)


# --- commit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(6, always=2))
def test_commits_of_parts_are_the_commit_of_all(any_lake: Lake, folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    repo = new_repository(any_lake, folder)
    main = repo.branch("main")
    commit_changes(main, dict.fromkeys(PATHS[::2], 1))
    repo.create_branch("all", "main")
    base, staged = sizes(repo, "main"), Staged()
    for _ in range(3):
        changes, stage = changes_of(rng), rng.choice([put_sizes, stage_sizes])
        for name in ("main", "all"):
            stage(repo.branch(name), changes)
        staged |= changes
    for _ in range(3):
        chosen = rng.sample(CHOICES, rng.randint(1, 3))
        part = {path: size for path, size in staged.items() if is_chosen(path, chosen)}
        before = sizes(repo, "main")
        if after(base, part) == base:
            with pytest.raises(NoChangesError, match="selected paths"):
                main.commit("part", paths=chosen)
        else:
            made = main.commit("part", paths=chosen)
            base, staged = after(base, part), {each: staged[each] for each in staged - part.keys()}
            assert list(made.parents) == [repo.resolve("main~1").id]
        assert sizes(repo, "main@") == base
        assert sizes(repo, "main") == before == after(base, staged)
    for name in ("main", "all"):
        repo.branch(name).commit("the rest", allow_empty=True)
    assert repo.tree("main").id == repo.tree("all").id
    assert not main.is_dirty


def test_many_rows_are_chosen_from(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "INLINE_ROWS", 3)
    main = repo.branch("main")
    put_sizes(main, dict.fromkeys([*PATHS, "z/1", "z/2"], 5))
    main.commit("n", paths=["n/", "z/2"])
    assert {path for path, size in sizes(repo, "main@").items() if size == 5} == {
        *(path for path in PATHS if path.startswith("n/")),
        "z/2",
    }
    assert {row.path for row in main.diff()} == {
        *(path for path in PATHS if not path.startswith("n/")),
        "z/1",
    }


def test_of_a_run_only_ranges_at_the_bounds_are_read_and_the_rest_is_taken_over(
    repo: Repository,
) -> None:
    main = repo.branch("main")
    stage_sizes(main, {f"k/{number:03}": 2 for number in range(200)})
    (layer,) = main.state.layers
    run = {each.id for each in repo._context.trees.get(layer.meta_range_id).ranges}
    assert main.plan(paths=["k/1"]).opened <= 2
    assert main.plan(paths=["n/00", "l/"]).opened == 0
    with recorded_reads() as read:
        main.commit("some", paths=["k/100", "k/10/", "n/"])
    assert len(run & set(read)) <= 4
    stage_sizes(main, {f"l/{number:03}/x": 2 for number in range(200)})
    with recorded_reads() as read:
        main.commit("one", paths=["l/"])
    assert not {each.id for each in repo.tree("main").ranges} & {*read} - run
    assert len(sizes(repo, "main$")) == 199
    main.commit("the rest")
    assert len(sizes(repo, "main@")) == len(PATHS[::2]) + 400


def test_what_is_put_meanwhile_stays_on_top(repo: Repository) -> None:
    main = repo.branch("main")
    put_sizes(main, {"a": 2, "n/00": 2, "b": 2})

    def write() -> None:
        put_sizes(main, {"a": 3, "b": 3})
        stage_sizes(main, {"a/b": 3, "n/01": None})
        put_sizes(main, {"n/01": 4})

    with just_before(MemoryBranches, "move", write):
        main.commit("a", paths=["a", "a/"])
    assert sizes(repo, "main@")["a"] == 2
    staged = {"a": 3, "b": 3, "a/b": 3, "n/00": 2, "n/01": 4}
    assert sizes(repo, "main") == {**sizes(repo, "main@"), **staged}
    main.commit("the rest")
    assert {path: size for path, size in sizes(repo, "main@").items() if size > 1} == staged


def test_of_two_commits_at_once_one_takes_all_and_the_other_its_part(repo: Repository) -> None:
    main = repo.branch("main")
    put_sizes(main, {"a": 2, "b": 2})
    with just_before(MemoryBranches, "move", lambda: main.commit("b", paths=["b"])):
        main.commit("a", paths=["a"])
    assert [each.message for each in repo.log("main", limit=2)] == ["a", "b"]
    assert (sizes(repo, "main@")["a"], sizes(repo, "main@")["b"]) == (2, 2)
    assert not main.is_dirty
    put_sizes(main, {"a": 3, "b": 3})
    with just_before(MemoryBranches, "move", lambda: main.commit("b", paths=["b"])):
        main.commit("all")
    assert [each.message for each in repo.log("main", limit=2)] == ["all", "b"]
    put_sizes(main, {"a": 4})
    with (
        just_before(MemoryBranches, "move", lambda: main.commit("all")),
        pytest.raises(AlreadyCommittedError),
    ):
        main.commit("a", paths=["a"])
    assert not main.is_dirty


def test_an_empty_commit_of_nothing_chosen(repo: Repository) -> None:
    main = repo.branch("main")
    main.put("b", b"22")
    made = main.commit("empty", allow_empty=True, paths=["a"])
    assert made.meta_range_id == repo.tree("main~1").id
    assert [row.path for row in main.diff()] == ["b"]


# --- merge ----------------------------------------------------------------------------------------


def three_way(base: Tree, source: Tree, dest: Tree, chosen: list[str]) -> tuple[Tree, list[str]]:
    """Return what a merge makes of dest, source winning, and what was in conflict."""
    merged, conflicts = dict(dest), []
    for path in sorted({*base, *source, *dest}):
        before, theirs, ours = base.get(path), source.get(path), dest.get(path)
        if not is_chosen(path, chosen) or theirs in (before, ours):
            continue
        if ours != before:
            conflicts.append(path)
        merged = after(merged, {path: theirs})
    return merged, conflicts


def counts(left: Tree, right: Tree) -> dict[str, tuple[int, int]]:
    """Return how many differ, and their bytes."""
    added = [right[path] for path in right.keys() - left.keys()]
    removed = [left[path] for path in left.keys() - right.keys()]
    both = left.keys() & right.keys()
    changed = [right[path] for path in both if left[path] != right[path]]
    kinds = {"added": added, "removed": removed, "changed": changed}
    return {kind: (len(found), sum(found)) for kind, found in kinds.items()}


@pytest.mark.parametrize("seed", seeds(8, always=2))
def test_merges_of_chosen_paths(
    any_lake: Lake, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    task_records = rng.choice([1, 5, 1000])
    monkeypatch.setattr(LocalRunner, "task_records", lambda *_: task_records)
    repo = new_repository(any_lake, folder)
    main = repo.branch("main")
    commit_changes(main, dict.fromkeys(PATHS[::2], 1))
    dev = repo.create_branch("dev", "main")
    base = sizes(repo, "main")
    for branch in (main, dev):
        commit_changes(branch, changes_of(rng))
    chosen = rng.sample(CHOICES, rng.randint(1, 4))
    source, dest, theirs = sizes(repo, "dev"), sizes(repo, "main"), repo.resolve("dev")
    expected, conflicts = three_way(base, source, dest, chosen)
    if expected == dest:
        with pytest.raises(NoChangesError, match="nothing to merge"):
            repo.preview_merge("dev", "main", "source-wins", paths=chosen)
    said = repo.preview_merge("dev", "main", "source-wins", paths=chosen, allow_empty=True)
    assert [row.path for row in said.conflicts] == conflicts
    assert (said.conflict_count, said.unresolved) == (len(conflicts), 0)
    found = {
        "added": (said.added, said.added_bytes),
        "removed": (said.removed, said.removed_bytes),
        "changed": (said.changed, said.changed_bytes),
    }
    assert found == counts(dest, expected)
    said = repo.preview_merge("dev", "main", paths=chosen, allow_empty=True)
    assert (said.conflict_count, said.unresolved) == (len(conflicts), len(conflicts))
    if conflicts:
        with pytest.raises(MergeConflictError) as raised:
            repo.merge("dev", "main", paths=chosen)
        assert tuple(raised.value.conflicts) == said.conflicts
    if expected == dest:
        with pytest.raises(NoChangesError, match="nothing to merge"):
            repo.merge("dev", "main", "source-wins", paths=chosen)
        return
    head = repo.resolve("main").id
    made = repo.merge("dev", "main", "source-wins", paths=chosen)
    assert sizes(repo, "main") == expected
    assert list(made.parents) == [head]
    assert made.metadata["merge-origin"] == theirs.id
    assert json.loads(made.metadata["merge-paths"]) == chosen
    # The rest is not lost to a later merge of all.
    rest, _ = three_way(base, source, expected, ["a", "b", *PATHS])
    repo.merge("dev", "main", "source-wins", allow_empty=True)
    assert sizes(repo, "main") == rest


def test_paths_from_an_iterator_are_read_once(repo: Repository) -> None:
    main = repo.branch("main")
    dev = repo.create_branch("dev", "main")
    commit_changes(dev, {"a": 5, "n/00": 5, "b": 5})
    assert repo.preview_merge("dev", "main", paths=iter(["a", "n/"])).changed == 2
    made = repo.merge("dev", "main", paths=iter(["a", "n/"]))
    assert json.loads(made.metadata["merge-paths"]) == ["a", "n/"]
    assert [sizes(repo, "main")[path] for path in ("a", "n/00", "b")] == [5, 5, 1]
    with pytest.raises(NoChangesError, match="nothing to restore: 'a', 'n/' on"):
        main.restore("main", iter(["a", "n/"]))
    assert main.restore("dev", iter(["b"])).changed == 1


def test_a_merge_of_chosen_paths_reads_nothing_else(repo: Repository) -> None:
    main = repo.branch("main")
    commit_changes(main, {f"{name}/{number:03}": 1 for name in "xyz" for number in range(100)})
    dev = repo.create_branch("dev", "main")
    commit_changes(dev, {f"{name}/{number:03}": 2 for name in "xyz" for number in range(0, 100, 9)})
    commit_changes(
        main, {f"{name}/{number:03}": 3 for name in "xyz" for number in range(5, 100, 9)}
    )
    trees = {ref: repo.tree(ref) for ref in ("main~1", "dev", "main")}
    known = {each.id: each for tree in trees.values() for each in tree.ranges}
    said = repo.plan_merge("dev", "main", paths=["y/"])
    preview = repo.preview_merge("dev", "main", paths=["y/"])
    assert preview.cost == said
    with recorded_reads() as read:
        repo.merge("dev", "main", paths=["y/"])
    opened = [known[each] for each in {*read} & known.keys()]
    outside = [each for each in opened if each.max_key < b"y/" or each.min_key >= b"y0"]
    # Where what is new does not stop at a range end, the range behind it is joined to it.
    assert len(outside) <= 1
    assert 0 < said.opened <= len(opened) <= said.opened + 2
    assert said.opened < repo.plan_merge("dev", "main").opened / 2
    with recorded_reads() as read:
        repo.preview_merge("dev", "main", paths=["x/000"])
    assert len({*read} & known.keys()) <= 3


def test_a_preview_writes_nothing(small_lake: Lake, repo: Repository) -> None:
    main = repo.branch("main")
    dev = repo.create_branch("dev", "main")
    commit_changes(dev, {"a": 5, "b": None, "new": 7, "n/00": 2})
    commit_changes(main, {"a": 6, "n/01": 2})
    before = fingerprint(small_lake)
    said = repo.preview_merge("dev", "main")
    assert fingerprint(small_lake) == before
    assert (said.added, said.changed, said.removed) == (1, 1, 1)
    assert (said.added_bytes, said.changed_bytes, said.removed_bytes) == (7, 2, 1)
    (row,) = said.conflicts
    assert (row.path, said.conflict_count, said.unresolved) == ("a", 1, 1)
    assert None not in (row.base, row.source, row.dest)
    ids = [each.id for each in (said.base, said.source, said.dest)]
    assert ids == [repo.resolve(ref).id for ref in ("main~1", "dev", "main")]
    assert said.cost == repo.plan_merge("dev", "main")
    decided = repo.preview_merge("dev", "main", "dest-wins")
    assert (decided.changed, decided.conflict_count, decided.unresolved) == (1, 1, 0)
    rows = repo.diff("main", "dev", three_way=True)
    assert sorted(each.type.value for each in rows) == ["added", "changed", "conflict", "removed"]


def test_a_preview_is_refused_as_the_merge_of_heads_is(repo: Repository) -> None:
    main = repo.branch("main")
    repo.create_branch("dev", "main")
    with pytest.raises(NoChangesError):
        repo.preview_merge("dev", "main")
    assert repo.preview_merge("dev", "main", allow_empty=True).added == 0
    commit_changes(repo.branch("dev"), {"a": 5})
    main.put("a", b"22")
    assert repo.preview_merge("dev", "main").changed == 1
    with pytest.raises(DirtyBranchError):
        repo.merge("dev", "main")


@pytest.mark.parametrize("terms", [{"paths": ["a"]}, {"squash": True}, {}])
def test_a_preview_says_as_the_merge_that_there_is_nothing_to_merge(
    repo: Repository, terms: dict[str, Any]
) -> None:
    """Dest has what source changed already, though not from source."""
    dev = repo.create_branch("dev", "main")
    commit_changes(dev, {"a": 5})
    commit_changes(repo.branch("main"), {"a": 5, "of main": 1})
    verbs = (partial(repo.preview_merge, "dev", "main"), partial(repo.merge, "dev", "main"))
    messages = set()
    for verb in verbs if terms else ():
        with pytest.raises(NoChangesError, match="nothing to merge") as raised:
            verb(**terms)
        messages.add(str(raised.value))
    assert len(messages) == (1 if terms else 0)
    assert repo.preview_merge("dev", "main", **terms, allow_empty=True).added == 0
    assert repo.merge("dev", "main", **terms, allow_empty=bool(terms))
    # What is in conflict stops the merge first.
    commit_changes(dev, {"a": 6})
    commit_changes(repo.branch("main"), {"a": 7})
    assert repo.preview_merge("dev", "main", **terms).unresolved == 1
    with pytest.raises(MergeConflictError):
        repo.merge("dev", "main", **terms)
    for verb in verbs if terms else ():
        with pytest.raises(NoChangesError):
            verb("dest-wins", **terms)


def test_a_squash_has_one_parent(repo: Repository) -> None:
    main = repo.branch("main")
    dev = repo.create_branch("dev", "main")
    for number in (5, 6):
        commit_changes(dev, {"a": number})
    head, theirs = repo.resolve("main"), repo.resolve("dev")
    made = repo.merge("dev", "main", squash=True)
    assert list(made.parents) == [head.id]
    assert (made.message, made.metadata["merge-origin"]) == ("Squash 'dev' into 'main'", theirs.id)
    assert made.meta_range_id == theirs.meta_range_id
    with pytest.raises(NoChangesError, match="already has all changes in commit"):
        repo.merge("dev", "main", squash=True)
    # The base is the old one; what both sides changed alike is no conflict.
    assert repo.merge_base("dev", "main").id == head.id
    merged = repo.merge("dev", "main")
    assert list(merged.parents) == [made.id, theirs.id]
    with pytest.raises(NoChangesError):
        repo.merge("dev", "main", squash=True)
    assert main.head.id == merged.id


def test_a_merge_of_nothing_where_it_is_asked_for(repo: Repository) -> None:
    main = repo.branch("main")
    repo.create_branch("dev", "main")
    commit_changes(main, {"a": 5})
    head, theirs = repo.resolve("main"), repo.resolve("dev")
    with pytest.raises(NoChangesError):
        repo.merge("dev", "main")
    made = repo.merge("dev", "main", allow_empty=True)
    assert list(made.parents) == [head.id, theirs.id]
    assert made.meta_range_id == head.meta_range_id
    squashed = repo.merge("dev", "main", allow_empty=True, squash=True)
    assert list(squashed.parents) == [made.id]
    itself = repo.merge("main~0", "main", allow_empty=True)
    assert list(itself.parents) == [squashed.id]
    with pytest.raises(NoChangesError, match="itself"):
        repo.merge("main", "main", allow_empty=True)


def test_a_merge_of_chosen_paths_that_loses_a_race_begins_again(repo: Repository) -> None:
    main = repo.branch("main")
    dev = repo.create_branch("dev", "main")
    commit_changes(dev, dict.fromkeys(PATHS, 2))
    before = sizes(repo, "main")
    other = Branch(main._context, "main")
    with just_before(MemoryBranches, "move", lambda: commit_changes(other, {"n/19": 3, "a": 3})):
        repo.merge("dev", "main", paths=["n/0/", "n/04", "n/05", "b/"])
    chosen = {"n/04": 2, "n/05": 2, "b/a": 2}
    assert sizes(repo, "main") == {**before, "n/19": 3, "a": 3, **chosen}


# --- restore --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(6, always=2))
def test_restores_are_what_dicts_say(any_lake: Lake, folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    repo = new_repository(any_lake, folder)
    main = repo.branch("main")
    for _ in range(3):
        commit_changes(main, changes_of(rng))
    staged: Staged = {}
    for _ in range(5):
        head = sizes(repo, "main@")
        changes, stage = changes_of(rng), rng.choice([put_sizes, stage_sizes])
        if rng.random() < 0.5:
            stage(main, changes)
            staged |= changes
        ref, chosen = rng.choice(["main~2", "main~1", "main"]), rng.sample(CHOICES, 2)
        wanted, before = sizes(repo, f"{ref}~0"), after(head, staged)
        part = {path for path in {*wanted, *head, *staged} if is_chosen(path, chosen)}
        differs = {path: wanted.get(path) for path in part if wanted.get(path) != head.get(path)}
        if not differs and not part & staged.keys():
            with pytest.raises((NoChangesError, ObjectNotFoundError)):
                main.restore(ref, chosen)
            assert sizes(repo, "main") == before
            continue
        made = main.restore(ref, chosen)
        staged = {**{path: staged[path] for path in staged.keys() - part}, **differs}
        assert sizes(repo, "main") == after(head, staged)
        assert sizes(repo, "main@") == head
        assert {path: wanted[path] for path in part & wanted.keys()} == {
            path: size for path, size in sizes(repo, "main").items() if path in part
        }
        removed = sum(size is None for size in differs.values())
        added = len(differs.keys() - head.keys())
        assert (made.added, made.removed) == (added, removed)
        assert made.added + made.removed + made.changed == len(differs)
        assert made.commit.id == repo.resolve(ref).id
        assert main.is_dirty == bool(staged)


def test_a_restore_is_seen_before_it_is_committed(repo: Repository) -> None:
    main = repo.branch("main")
    first = sizes(repo, "main")
    commit_changes(main, {"a": 5, "a/b": None, "n/00": None, "n/01": 5})
    main.restore("main~1", ["n/", "a"])
    assert [(row.type.value, row.path) for row in main.diff()] == [
        ("changed", "a"),
        ("added", "n/00"),
        ("removed", "n/01"),
    ]
    main.commit("back")
    assert sizes(repo, "main") == after(first, {"a/b": None})
    with pytest.raises(NoChangesError, match="is the same at 'main~2'"):
        main.restore("main~2", ["n/"])
    main.put("n/00", b"333")
    assert main.restore("main", ["n/"]).changed == 0
    assert not main.is_dirty


def test_a_restore_of_a_folder_that_is_gone_reads_no_range_of_it(repo: Repository) -> None:
    main = repo.branch("main")
    commit_changes(main, {f"{name}/{number:03}": 1 for name in "xyz" for number in range(100)})
    commit_changes(main, {f"y/{number:03}": None for number in range(100)})
    known = {each.id for ref in ("main", "main~1") for each in repo.tree(ref).ranges}
    with recorded_reads() as read:
        assert main.restore("main~1", ["y/"]).added == 100
    assert len({*read} & known) <= 6
    main.commit("back")
    assert repo.tree("main").id == repo.tree("main~2").id


def test_what_is_put_during_a_restore_stays(repo: Repository) -> None:
    main = repo.branch("main")
    commit_changes(main, {"a": 5})
    main.put("b", b"22")
    with just_before(MemoryStaging, "drop", lambda: main.put("n/00", b"22")):
        main.restore("main~1", ["a"])
    found = sizes(repo, "main")
    assert (found["a"], found["b"], found["n/00"]) == (1, 2, 2)


# --- bad input ------------------------------------------------------------------------------------


def test_bad_input(small_lake: Lake, repo: Repository) -> None:
    main = repo.branch("main")
    dev = repo.create_branch("dev", "main")
    commit_changes(dev, {"a": 5})
    gone = Branch(main._context, "gone")
    for error, words, act in (
        (InvalidKeyError, "empty", lambda: main.commit("m", paths=[""])),
        (InvalidInputError, "the list of paths is empty", lambda: main.commit("m", paths=[])),
        (InvalidInputError, "a list", lambda: main.commit("m", paths="a/")),
        (NoChangesError, "nothing to commit", lambda: main.commit("m", paths=["a"])),
        (RefNotFoundError, "gone", lambda: gone.commit("m", paths=["a"])),
        (InvalidKeyError, "empty", lambda: main.plan(paths=[""])),
        (InvalidKeyError, "empty", lambda: repo.merge("dev", "main", paths=[""])),
        (
            InvalidInputError,
            "the list of paths is empty",
            lambda: repo.merge("dev", "main", paths=[]),
        ),
        (
            InvalidInputError,
            "the list of paths is empty",
            lambda: repo.preview_merge("dev", "main", paths=[]),
        ),
        (
            InvalidInputError,
            "the list of paths is empty",
            lambda: repo.plan_merge("dev", "main", paths=[]),
        ),
        (InvalidInputError, "strategy", lambda: repo.preview_merge("dev", "main", "ours")),
        (
            InvalidInputError,
            "at most",
            lambda: repo.merge("dev", "main", paths=[f"{n:0500}" for n in range(200)]),
        ),
        (
            NoChangesError,
            "already has all changes of 'x', 'y/'",
            lambda: repo.merge("dev", "main", paths=["x", "y/"]),
        ),
        (RefNotFoundError, "gone", lambda: repo.preview_merge("dev", "gone")),
        (InvalidKeyError, "not UTF-8", lambda: main.restore("dev", ["\udcff"])),
        (InvalidInputError, "the list of paths is empty", lambda: main.restore("dev", [])),
        (InvalidRefError, "not a commit", lambda: main.restore("dev$", ["a"])),
        (RefNotFoundError, "gone", lambda: main.restore("gone", ["a"])),
        (RefNotFoundError, "gone", lambda: gone.restore("dev", ["a"])),
        (ObjectNotFoundError, "neither 'dev' nor", lambda: main.restore("dev", ["b/x", "x/"])),
        (NoChangesError, "nothing to restore", lambda: main.restore("dev", ["a/", "x/"])),
    ):
        with refused(small_lake, error, words):
            act()
