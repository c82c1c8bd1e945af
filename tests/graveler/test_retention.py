"""Which commits are kept: a table of small histories, and any history against plain dicts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import BranchState, RefsSnapshot, TagInfo
from sparklake.graveler.retention import BranchRetention, Retention, expired_commits
from tests.support.cases import for_each

DAY = 24 * 60 * 60
NOW = 1000 * DAY


@dataclass
class History:
    """Commits as name -> (age in days, parents), parents first; branches and tags by name."""

    commits: dict[str, tuple[float, list[str]]]
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def refs(self) -> RefsSnapshot:
        generations: dict[str, int] = {}
        commits = []
        for name, (age, parents) in self.commits.items():
            generations[name] = 1 + max((generations[each] for each in parents), default=0)
            date = NOW - int(age * DAY)
            ids = tuple(map(CommitId, parents))
            tree = MetaRangeId("")
            commits.append(Commit(CommitId(name), ids, "", "", date, tree, {}, generations[name]))
        return RefsSnapshot(
            tuple(BranchState(name, CommitId(at)) for name, at in self.branches.items()),
            tuple(TagInfo(name, CommitId(at)) for name, at in self.tags.items()),
            tuple(sorted(commits, key=lambda each: (each.generation, each.id))),
        )

    def expired(self, retention: Retention | None) -> str:
        return "".join(sorted(expired_commits(self.refs(), retention, NOW)))


WEEK = Retention(7)
LINE = {"a": (40, []), "b": (30, ["a"]), "c": (10, ["b"]), "d": (3, ["c"]), "e": (1, ["d"])}
SLOW = {"a": (40, []), "b": (3, ["a"]), "c": (300, ["b"]), "d": (1, ["c"])}
SIDE = {**LINE, "x": (20, ["b"]), "y": (2, ["x"]), "m": (0.5, ["e", "y"])}


@for_each(
    ("history", "retention", "expired"),
    [
        (History(LINE, {"main": "e"}), None, ""),
        # What the branch held a week ago stays, and so on.
        (History(LINE, {"main": "e"}), WEEK, "ab"),
        (History(LINE, {"main": "e"}), Retention(2), "abc"),
        (History(LINE, {"main": "e"}), Retention(30), "a"),
        (History(LINE, {"main": "e"}), Retention(31), ""),
        (History(LINE, {"main": "e"}), Retention(0), "abcd"),
        # A head stays, however old.
        (History(LINE, {"main": "b"}), WEEK, "ac"),
        (History(LINE, {"main": "e", "old": "a"}), WEEK, "b"),
        (History(LINE, {"main": "e"}, {"v1": "b"}), WEEK, "a"),
        # Rules: the first that fits, and the longest of what leads to a commit.
        (History(LINE, {"main": "e"}), Retention(0, (BranchRetention("m*n", 30),)), "a"),
        (
            History(LINE, {"main": "e"}),
            Retention(0, (BranchRetention("ma*", 7), BranchRetention("*", 40))),
            "ab",
        ),
        (
            History(LINE, {"main": "e", "dev": "d"}),
            Retention(7, (BranchRetention("dev", 30),)),
            "a",
        ),
        (
            History(LINE, {"main": "e", "dev": "d"}),
            Retention(7, (BranchRetention("main", 0),)),
            "ab",
        ),
        # A tag retains commits for the default period.
        (History(LINE, {"main": "e"}, {"t": "d"}), Retention(7, (BranchRetention("*", 0),)), "ab"),
        # What a merge brought in lies on no line of its own: it is kept for the default.
        (History(SIDE, {"main": "m"}), WEEK, "abx"),
        (History(SIDE, {"main": "m"}), Retention(1, (BranchRetention("main", 7),)), "abxy"),
        (History(SIDE, {"main": "m", "side": "y"}), WEEK, "ab"),
        (History(SIDE, {"main": "e"}), WEEK, "abx"),
        # Nothing leads to these.
        (History(LINE, {"main": "a"}), WEEK, "bc"),
        (History(LINE), WEEK, "abc"),
        # A clock that was slow lets nothing expire that is young; one that is fast keeps its own.
        (History(SLOW, {"main": "d"}), WEEK, ""),
        (History(SLOW, {"main": "d"}), Retention(2), "ab"),
        (History({**LINE, "e": (-300, ["d"])}, {"main": "e"}), WEEK, "ab"),
        (History({"a": (40, []), "b": (300, ["a"])}, {"main": "b"}), Retention(50), ""),
    ],
)
def test_old_commits_expire(history: History, retention: Retention | None, expired: str) -> None:
    assert history.expired(retention) == expired


@st.composite
def histories(draw: st.DrawFn) -> History:
    commits: dict[str, tuple[float, list[str]]] = {}
    for number in range(draw(st.integers(1, 12))):
        parents = draw(st.lists(st.sampled_from(sorted(commits)), max_size=2)) if commits else []
        commits[f"c{number:02}"] = draw(st.integers(-2, 12)), parents
    at = st.sampled_from(sorted(commits))
    branches = draw(st.dictionaries(st.sampled_from(["main", "dev", "fix", "x"]), at))
    return History(commits, branches, draw(st.dictionaries(st.sampled_from(["t", "u"]), at)))


RULES = st.lists(
    st.builds(BranchRetention, st.sampled_from(["main", "dev", "*"]), st.integers(0, 12)),
    unique_by=lambda each: each.pattern,
)


@given(histories(), st.builds(Retention, st.integers(0, 12), RULES.map(tuple)))
def test_retention_matches_a_model_for_any_history(history: History, retention: Retention) -> None:
    commits, age = history.commits, dict[str, float]()
    for name, (days, parents) in commits.items():
        age[name] = min([days, *(age[each] for each in parents)])

    def line(head: str) -> list[str]:
        first = commits[head][1][:1]
        return [head, *(line(first[0]) if first else [])]

    def days_of(branch: str) -> int:
        rules = {each.pattern: each.days for each in retention.branches}
        fitting = [rules[each] for each in rules if each in (branch, "*")]
        return fitting[0] if fitting else retention.default_days

    starts = [(at, days_of(name)) for name, at in history.branches.items()]
    starts += [(at, retention.default_days) for at in history.tags.values()]
    retained = set()
    for at, days in starts:
        first_older = next((name for name in line(at) if age[name] >= days), None)
        retained |= {name for name in line(at) if age[name] < days} | ({first_older} - {None})
    on_lines = {name for at, _ in starts for name in line(at)}
    retained |= {name for name in commits if age[name] < retention.default_days} - on_lines
    expired = expired_commits(history.refs(), retention, NOW)
    assert expired == commits.keys() - retained
    assert expired.isdisjoint([*history.branches.values(), *history.tags.values()])


def test_invalid_rules_are_rejected() -> None:
    for days in (-1, 36_501):
        with pytest.raises(InvalidInputError, match="0 to 36,500 days"):
            Retention(days)
        with pytest.raises(InvalidInputError, match="0 to 36,500 days"):
            BranchRetention("main", days)
    with pytest.raises(InvalidInputError, match="matches no branch"):
        BranchRetention("a/b", 1)
    with pytest.raises(InvalidInputError, match="two retention rules"):
        Retention(1, (BranchRetention("a", 1), BranchRetention("a", 2)))


@pytest.mark.parametrize(
    ("history", "message"),
    [
        (History({"b": (1, ["a"])}, {"main": "b"}), "the commit a, a parent of commit b, is"),
        (History({"b": (1, [])}, {"main": "c"}), "the commit c, the commit of 'main', is"),
        (History({"b": (1, [])}, {"main": "b"}, {"v1": "c"}), "the commit of 'v1', is missing"),
    ],
)
def test_a_missing_commit_is_reported(history: History, message: str) -> None:
    refs = lost_refs(history)
    assert expired_commits(refs, None, NOW) == set()
    with pytest.raises(CorruptFileError, match=rf"{message}.*`sparklake check`"):
        expired_commits(refs, WEEK, NOW)


def lost_refs(history: History) -> RefsSnapshot:
    """Return the refs of a history without the commit `a`."""
    whole = History({"a": (2, []), **history.commits}, history.branches, history.tags).refs()
    return replace(whole, commits=tuple(each for each in whole.commits if each.id != "a"))
