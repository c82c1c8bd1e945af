"""Commits of a line that another branch lacks, against brute force."""

from __future__ import annotations

import random
from itertools import product

from sparklake.graveler.graph.merge_base import own_commits
from sparklake.graveler.ids import CommitId
from tests.support.recursive import History, ancestry, criss_crossed


def generation(history: History, commit: str) -> int:
    more = (0, 0, 0, 30)[sum(commit.encode()) % 4]  # As in squash merges of lakeFS.
    return 1 + more + max((generation(history, parent) for parent in history[commit]), default=0)


def own(history: History, head: str, other: str) -> list[str]:
    generations = {each: generation(history, each) for each in history}
    ends = CommitId(head), CommitId(other)
    return [*own_commits(*ends, history.__getitem__, generations.__getitem__)]  # type: ignore[arg-type]


def brute_force(history: History, head: str, other: str) -> list[str]:
    contained, line = ancestry(history, [other]), [head]
    while history[line[-1]]:
        line.append(history[line[-1]][0])
    return [
        each
        for each in reversed(line)
        if each not in contained and not (history[each][1:] and contained >= {*history[each][1:]})
    ]


def test_random_histories_agree_with_brute_force() -> None:
    chance = random.Random(3)
    for _ in range(150):
        history, _, _ = criss_crossed(chance, 4)
        for head, other in product(history, repeat=2):
            assert own(history, head, other) == brute_force(history, head, other), history


def test_only_commits_newer_than_the_line_are_visited() -> None:
    history = {"0": (), **{f"{at}": (f"{at - 1}",) for at in range(1, 500)}}
    history |= {"a": ("490",), "b": ("a",)}
    generations = {"0": 1, **{f"{at}": at + 1 for at in range(1, 500)}, "a": 492, "b": 493}
    visits: list[str] = []

    def parents(commit: CommitId) -> list[CommitId]:
        visits.append(commit)
        return [*map(CommitId, history[commit])]

    commits = own_commits(CommitId("b"), CommitId("499"), parents, generations.__getitem__)
    assert commits == ["a", "b"]
    assert len(visits) < 20
