"""How far two histories are apart, against a search of all ancestors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.graveler.graph.merge_base import ahead_behind
from sparklake.graveler.ids import CommitId

Histories = Mapping[str, Sequence[str]]


@st.composite
def histories(draw: st.DrawFn) -> Histories:
    history: dict[str, Sequence[str]] = {}
    for number in range(draw(st.integers(1, 12))):
        earlier = sorted(history)
        above = (
            st.lists(st.sampled_from(earlier), max_size=3, unique=True) if earlier else st.just([])
        )
        history[f"c{number:02d}"] = draw(above)
    return history


def ancestors(history: Histories, commit: str) -> set[str]:
    return {commit}.union(*(ancestors(history, each) for each in history[commit]))


def generation(history: Histories, commit: str) -> int:
    more = (0, 0, 0, 30)[sum(commit.encode()) % 4]  # As in squash merges of lakeFS.
    return 1 + more + max((generation(history, each) for each in history[commit]), default=0)


def distance(history: Histories, left: str, right: str) -> tuple[tuple[int, int], set[str]]:
    """Return the distance, and the commits whose parents are read."""
    read = set[str]()

    def parents(commit: CommitId) -> Sequence[CommitId]:
        read.add(commit)
        return [CommitId(each) for each in history[commit]]

    counts = ahead_behind(
        CommitId(left), CommitId(right), parents, lambda each: generation(history, each)
    )
    return counts, read


@given(histories(), st.data())
def test_distance_agrees_with_a_full_search(history: Histories, data: st.DataObject) -> None:
    left, right = (data.draw(st.sampled_from(sorted(history))) for _ in range(2))
    one, other = ancestors(history, left), ancestors(history, right)
    counts, _ = distance(history, left, right)
    assert counts == (len(one - other), len(other - one))


@pytest.mark.parametrize(
    ("left", "right", "expected", "read"),
    [("d", "d", (0, 0), set[str]()), ("e", "d", (1, 0), {"e"}), ("e", "f", (1, 1), {"e", "f"})],
)
def test_the_search_stops_where_histories_meet(
    left: str, right: str, expected: tuple[int, int], read: set[str]
) -> None:
    history = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["d"], "f": ["d"]}
    assert distance(history, left, right) == (expected, read)
