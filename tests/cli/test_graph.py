"""Histories as they are drawn: known pictures, and every edge of random ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from sparklake.verbs.history.graph import Lanes
from tests.cli.running import Scene, ok
from tests.cli.terminal import on_terminal

History = Mapping[str, Sequence[str]]


def test_long_metadata_is_wrapped_beside_the_graph(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    words = [f"--meta=key{at}=value{at}" for at in range(9)]
    ok("commit", scene.uri("main"), "-m", "long", "--allow-empty", *words)
    seen = on_terminal("--no-pager", "log", scene.uri("main"), "--graph", COLUMNS="40")
    lines = [each for each in seen.replace("\r", "").split("\n") if each]
    details = [each for each in lines if "key" in each]
    assert len(details) > 3
    assert all(each.startswith("|  ") for each in details)
    assert all(len(re.sub("\x1b\\[[0-9;]*m", "", each)) <= 40 for each in details)


def drawn(history: History) -> list[str]:
    lanes, lines = Lanes(), []
    for commit, parents in history.items():
        drawing = lanes.draw(commit, parents)
        lines += [f"{drawing.node}  {commit}", *drawing.links]
    return [line.rstrip() for line in lines]


def test_a_line() -> None:
    assert drawn({"c": ["b"], "b": ["a"], "a": []}) == ["*  c", "*  b", "*  a"]


def test_a_merge() -> None:
    history = {"m": ["c", "b"], "c": ["a"], "b": ["a"], "a": []}
    assert drawn(history) == ["*  m", "|-\\", "* |  c", "| *  b", "|-/", "*  a"]


def test_a_merge_whose_branch_comes_first() -> None:
    history = {"m": ["c", "b"], "b": ["a"], "c": ["a"], "a": []}
    assert drawn(history) == ["*  m", "|-\\", "| *  b", "* |  c", "|-/", "*  a"]


def test_a_branch_that_is_merged_twice() -> None:
    history = {"n": ["m", "d"], "m": ["c", "b"], "d": ["b"], "c": ["a"], "b": ["a"], "a": []}
    assert drawn(history) == [
        "*  n",
        "|-\\",
        "* |  m",
        "|-|-\\",
        "| * |  d",
        "| |-/",
        "* |  c",
        "| *  b",
        "|-/",
        "*  a",
    ]


def test_a_link_crosses_other_lanes() -> None:
    history = {"n": ["m", "d", "e"], "m": ["e"], "d": ["a"], "e": ["a"], "a": []}
    assert drawn(history) == [
        "*  n",
        "|-\\",
        "|-|-\\",
        "* | |  m",
        "|-|-/",
        "| *  d",
        "* |  e",
        "|-/",
        "*  a",
    ]


def test_a_parent_counts_once() -> None:
    assert drawn({"b": ["a", "a"], "a": []}) == ["*  b", "*  a"]


def test_a_commit_without_parents_ends_its_lane() -> None:
    lanes = Lanes()
    assert lanes.draw("b", ["a"]).beside == "|"
    assert lanes.draw("a", []).beside == " "


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Commit in an order in which children come first, each with up to three parents."""
    size = draw(st.integers(1, 12))
    return {
        str(at): [
            str(parent)
            for parent in draw(
                st.lists(st.integers(at + 1, size - 1), max_size=3, unique=True)
                if at + 1 < size
                else st.just([])
            )
        ]
        for at in range(size)
    }


@given(histories())
def test_every_edge_is_drawn(history: History) -> None:
    """Follow the lanes of a picture down, by its characters alone, from commit to commit."""
    lanes = Lanes()
    pending: dict[int, set[str]] = {}  # what comes down in each column: the commits it is from
    found = {commit: set[str]() for commit in history}
    for commit, parents in history.items():
        drawing = lanes.draw(commit, parents)
        at = drawing.node.index("*")
        for child in pending.pop(at, set()):
            found[child].add(commit)
        if parents:
            pending[at] = {commit}
        for link in drawing.links:
            follow(link, commit, pending)
    assert not any(pending.values())
    assert found == {commit: set(parents) for commit, parents in history.items()}


def follow(link: str, commit: str, pending: dict[int, set[str]]) -> None:
    """Move what comes down to where a link leads it; one end of a link is always the commit's."""
    gaps = [at for at, mark in enumerate(link) if at % 2 and mark == "-"]
    left, right = gaps[0] - 1, gaps[-1] + 1
    mine = left if commit in pending.get(left, set()) else right
    other = right if mine == left else left
    if link[right] == "/" and link[left] == "|":
        pending[left] = pending[left] | pending.pop(right)
    else:
        pending[other] = pending.get(other, set()) | {commit}
