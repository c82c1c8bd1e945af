"""Levels: what they show, against plain dicts, and which ranges they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.counting import recorded_reads
from sparklake import Branch, Lake, Repository
from sparklake.graveler.ranges import RangeInfo
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.objects.list import Folder
from tests.support.lakes import put_sizes, stage_sizes

Sizes = Mapping[str, int | None]
Add = Callable[[Branch, Sizes], None]

HUGE = ("b", "huge", "z")
SMALL = [f"{letter}{number:02}" for letter in "acmy" for number in range(10)]
PATHS = [
    *(f"top/{folder}/{number:04}" for folder in HUGE for number in range(200)),
    *(f"top/{folder}/{number}" for folder in SMALL for number in range(3)),
    *(f"top/object {number}" for number in range(5)),
    *(f"{folder}/{number}" for folder in ("beside", "zz") for number in range(40)),
]


def level(contents: Sizes, prefix: str) -> list[tuple[str, int | None]]:
    """Return the folders of a level, without a size, and its objects."""
    shown: dict[str, int | None] = {}
    for path, size in sorted(contents.items()):
        if path.startswith(prefix) and size is not None:
            name, slash, _ = path.removeprefix(prefix).partition("/")
            shown[f"{prefix}{name}{slash}"] = None if slash else size
    return list(shown.items())


def listed(repo: Repository, ref: str, prefix: str) -> list[tuple[str, int | None]]:
    return [
        (each.path, None if isinstance(each, Folder) else each.size)
        for each in repo.folder(ref, prefix)
    ]


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    made = small_lake.create_repository("lake", str(folder / "lake"), range_records=4)
    stage_sizes(made.branch("main"), dict.fromkeys(PATHS, 1))
    made.branch("main").commit("base")
    return made


def is_inside(each: RangeInfo, folder: str) -> bool:
    return all(key.startswith(folder.encode()) for key in (each.min_key, each.max_key))


def mixed(repo: Repository) -> list[str]:
    """Return the ranges with something of `top/` that do not lie inside of one of its folders."""
    folders = [path for path, size in level(dict.fromkeys(PATHS, 1), "top/") if size is None]
    return [
        each.id
        for each in repo.tree("main").ranges
        if each.max_key >= b"top/" and each.min_key < b"top0"
        if not any(is_inside(each, folder) for folder in folders)
    ]


def forget_ranges(repo: Repository) -> None:
    for kept in (repo._context.open_ranges._open, repo._context.open_ranges._packed):
        kept.clear()


def huge_ranges(repo: Repository) -> list[RangeInfo]:
    return [each for each in repo.tree("main").ranges if is_inside(each, "top/huge/")]


def test_what_lies_inside_of_a_folder_is_not_read(repo: Repository) -> None:
    wanted = level(dict.fromkeys(PATHS, 1), "top/")
    for _ in range(2):
        with recorded_reads() as reads:
            assert listed(repo, "main", "top/") == wanted
        forget_ranges(repo)
        assert sorted(reads) == sorted(mixed(repo))
    assert len(mixed(repo)) < len(repo.tree("main").ranges) / 2
    assert len(huge_ranges(repo)) > 20


def test_an_open_range_is_not_read_again(repo: Repository) -> None:
    listed(repo, "main", "top/")
    with recorded_reads() as reads:
        listed(repo, "main", "top/")
    assert reads == []


@pytest.mark.parametrize("add", [put_sizes, stage_sizes], ids=["rows", "run"])
def test_what_is_staged_in_a_folder_that_is_shown_is_jumped_over(
    repo: Repository, add: Add
) -> None:
    ranges = huge_ranges(repo)
    changes: Sizes = {"top/huge/0100": 2, "top/huge/0150 new": 2, "top/huge/0199": None}
    add(repo.branch("main"), changes)
    with recorded_reads() as reads:
        assert listed(repo, "main", "top/") == level(dict.fromkeys(PATHS, 1), "top/")
    assert not {each.id for each in ranges} & set(reads)
    assert set(mixed(repo)) & set(reads)  # The warnings of verbs have read the others.
    assert len(reads) == len(set(reads))


@pytest.mark.parametrize("add", [put_sizes, stage_sizes], ids=["rows", "run"])
def test_a_folder_that_loses_its_first_objects_is_read_up_to_the_next(
    repo: Repository, add: Add
) -> None:
    first, second, *others = huge_ranges(repo)
    end = second.min_key.decode()
    gone: Sizes = {path: None for path in PATHS if "top/huge/" <= path < end}
    add(repo.branch("main"), gone)
    with recorded_reads() as reads:
        assert listed(repo, "main", "top/") == level(dict.fromkeys(PATHS, 1), "top/")
    assert first.id in reads
    assert not {each.id for each in (second, *others)} & set(reads)


def test_a_folder_that_is_deleted_is_not_shown(repo: Repository) -> None:
    repo.branch("main").delete_prefix("top/huge/")
    shown = listed(repo, "main", "top/")
    assert shown == level({path: 1 for path in PATHS if not path.startswith("top/huge/")}, "top/")


def test_whoever_stops_early_has_read_little(small_lake: Lake, folder: Path) -> None:
    repo = small_lake.create_repository("flat", str(folder / "flat"), range_records=4)
    paths = dict.fromkeys([f"flat/{number:05}" for number in range(2000)], 1)
    stage_sizes(repo.branch("main"), paths)
    repo.branch("main").commit("base")
    with recorded_reads() as reads:
        assert len(list(islice(repo.folder("main", "flat/"), 10))) == 10
    assert len(reads) <= 15
    forget_ranges(repo)
    with recorded_reads() as reads:
        assert len(list(repo.folder("main", "flat/"))) == 2000
    assert sorted(reads) == sorted(each.id for each in repo.tree("main").ranges)


names = st.text("aé/-", min_size=1, max_size=5).filter(lambda path: not path.startswith("/"))
trees = st.dictionaries(names, st.integers(1, 9), max_size=40)
changes = st.dictionaries(names, st.integers(1, 9) | st.none(), max_size=12)


@pytest.mark.system
@settings(max_examples=80, deadline=None)
@given(trees, changes, changes, st.lists(st.text("aé/-", max_size=3), min_size=1, max_size=4))
def test_levels_are_those_of_a_dict(
    base: Sizes, run: Sizes, rows: Sizes, prefixes: list[str]
) -> None:
    with memory_folder() as folder:
        repo = memory_lake().create_repository("lake", str(folder / "lake"), range_records=2)
        main = repo.branch("main")
        if base:
            stage_sizes(main, base)
            main.commit("base")
        if run:
            stage_sizes(main, run)
        put_sizes(main, rows)
        for prefix in ("", *prefixes):
            assert listed(repo, "main", prefix) == level({**base, **run, **rows}, prefix)
            assert listed(repo, "main@", prefix) == level(base, prefix)
