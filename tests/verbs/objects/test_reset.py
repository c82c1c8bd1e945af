"""Reset of a part of what is staged, against dicts of what was staged."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Branch, Lake, Repository
from sparklake.errors import (
    AlreadyCommittedError,
    InvalidInputError,
    InvalidKeyError,
    RefNotFoundError,
)
from sparklake.testing.memory import MemoryBranches, MemoryStaging
from tests.support.interleaved_calls import just_before
from tests.support.lakes import paths, put_sizes, refused, stage_sizes
from tests.support.seeds import seeds

PATHS = [
    "a",
    "a.",
    "a/",
    "a/b",
    "a/b/c",
    "a/é",
    "a0",
    "b",
    "b/a",
    *(f"n/{n:02}" for n in range(30)),
]
PREFIXES = ["", "a", "a/", "a/b", "b", "n/", "n/1", "nothing", "é"]

Staged = dict[str, int | None]


@pytest.fixture
def main(small_lake: Lake, folder: Path) -> Branch:
    repo = small_lake.create_repository("lake", str(folder / "namespace"), range_records=2)
    branch = repo.branch("main")
    put_sizes(branch, dict.fromkeys(PATHS[::2], 1))
    branch.commit("base")
    return branch


def repository(lake: Lake) -> Repository:
    return lake.repository("lake")


def sizes(lake: Lake, ref: str) -> dict[str, int]:
    return {each.path: each.size for each in repository(lake).objects(ref)}


def after(base: dict[str, int], staged: Staged) -> dict[str, int]:
    found = {**base, **staged}
    return {path: size for path, size in found.items() if size is not None}


@pytest.mark.parametrize("seed", seeds(20, always=4))
def test_what_is_left_is_what_dicts_say(small_lake: Lake, main: Branch, seed: int) -> None:
    """Layers of rows and runs, tombstones among them, of which prefixes and objects are dropped."""
    rng = random.Random(seed)
    base, staged = sizes(small_lake, "main"), Staged()
    for _ in range(12):
        if rng.random() < 0.6:
            some = rng.sample(PATHS, rng.randint(1, 12))
            changes = {path: rng.choice([None, 2, 3]) for path in some if not path.endswith("/")}
            rng.choice([put_sizes, stage_sizes])(main, changes)
            staged |= changes
        elif rng.random() < 0.5:
            prefix = rng.choice(PREFIXES)
            main.reset(prefix=prefix)
            staged = {path: size for path, size in staged.items() if not path.startswith(prefix)}
        else:
            path = rng.choice(PATHS)
            main.reset(path=path)
            staged.pop(path, None)
        assert sizes(small_lake, "main") == after(base, staged)
        assert sizes(small_lake, "main@") == base
        assert main.is_dirty == bool(staged)
    if after(base, staged) != base:
        main.commit("the rest")
    assert sizes(small_lake, "main") == after(base, staged)


def test_only_the_ranges_at_the_bounds_are_read(small_lake: Lake, main: Branch) -> None:
    stage_sizes(main, {f"k/{number:03}": 2 for number in range(200)})
    (layer,) = main.state.layers
    trees = repository(small_lake)._context.trees
    run = {each.id for each in trees.get(layer.meta_range_id).ranges}
    with recorded_reads() as read:
        main.reset(prefix="k/1")
    assert len(run) > 20
    assert len(run & set(read)) <= 2
    assert len(paths(repository(small_lake), "main", "k/")) == 100


def test_a_reset_of_nothing_is_none(small_lake: Lake, main: Branch) -> None:
    for part in ({"prefix": "a"}, {"path": "a"}, {"prefix": ""}, {}):
        main.reset(**part)
        assert not main.is_dirty
    main.put("b", b"22")
    main.reset(path="a")
    assert main.is_dirty
    main.reset(prefix="")
    assert not main.is_dirty


def test_bad_input(small_lake: Lake, main: Branch) -> None:
    main.put("b", b"22")
    gone = Branch(main._context, "gone")
    both: dict[str, Any] = {"prefix": "a", "path": "a"}
    for error, words, branch, part in (
        (InvalidInputError, "choose one of a prefix and a path", main, both),
        (InvalidKeyError, "not UTF-8", main, {"prefix": "\udcff"}),
        (InvalidKeyError, "not UTF-8", main, {"path": "\udcff"}),
        (InvalidKeyError, "empty", main, {"path": ""}),
        (RefNotFoundError, "'gone'", gone, {"path": "a"}),
        (RefNotFoundError, "'gone'", gone, {"prefix": "a"}),
    ):
        with refused(small_lake, error, words):
            branch.reset(**part)


# --- races ----------------------------------------------------------------------------------------


def test_what_is_put_meanwhile_stays(small_lake: Lake, main: Branch) -> None:
    main.put("a", b"22")
    with just_before(MemoryStaging, "drop", lambda: main.put("n/00", b"22")):
        main.reset(prefix="a")
    assert {path for path, size in sizes(small_lake, "main").items() if size == 2} == {"n/00"}


def test_what_is_committed_meanwhile_stays(small_lake: Lake, main: Branch) -> None:
    main.put("a", b"22")
    with just_before(MemoryStaging, "drop", lambda: main.commit("first")):
        main.reset(prefix="a")
    assert sizes(small_lake, "main@")["a"] == 2
    assert not main.is_dirty


def test_a_commit_under_way_does_not_bring_back_what_was_dropped(
    small_lake: Lake, main: Branch
) -> None:
    put_sizes(main, {"a": 2, "n/00": 2})
    with just_before(MemoryBranches, "move", lambda: main.reset(path="a")):
        main.commit("the rest")
    assert {path for path, size in sizes(small_lake, "main@").items() if size == 2} == {"n/00"}
    assert not main.is_dirty
    main.put("a", b"22")
    with (
        just_before(MemoryBranches, "move", lambda: main.reset(path="a")),
        pytest.raises(AlreadyCommittedError),
    ):
        main.commit("nothing")
    assert sizes(small_lake, "main")["a"] == 1
