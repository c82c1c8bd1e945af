"""Retention: how long commits are kept, and how they expire.

From each branch and tag, first parents are kept up to and including the first commit older than the
retention: the branch's state at the start of the period. Other commits are kept for the default
retention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparklake.errors import CorruptFileError, ExpiredError, InvalidInputError
from sparklake.graveler.ids import CommitId
from sparklake.graveler.refs.names import check_pattern, fits

if TYPE_CHECKING:
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.ports import RefsSnapshot

MAX_DAYS = 36_500
DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class BranchRetention:
    """The retention, in days, of branches with matching names."""

    pattern: str
    days: int

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        _check_days(self.days)


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of commits, in days. The first matching rule of a branch applies.

    The tree of an expired commit is kept for another `tree_days`. None keeps it forever, as in
    rules of earlier versions.
    """

    default_days: int
    branches: tuple[BranchRetention, ...] = ()
    tree_days: int | None = None

    def __post_init__(self) -> None:
        _check_days(self.default_days)
        if self.tree_days is not None:
            _check_days(self.tree_days)
        patterns = [each.pattern for each in self.branches]
        if len(set(patterns)) < len(patterns):
            raise InvalidInputError("a pattern has two retention rules: remove one")

    def days(self, branch: str) -> int:
        fitting = (each.days for each in self.branches if fits(each.pattern, branch))
        return next(fitting, self.default_days)

    def with_renamed_branch(self, old: str, new: str) -> Retention:
        """Move the rule of an exact name, or add one if the days differ by the new name."""
        others = [each for each in self.branches if each.pattern not in (old, new)]
        moved = replace(self, branches=tuple(others))
        if moved.days(new) == self.days(old):
            return moved
        return replace(self, branches=(BranchRetention(new, self.days(old)), *others))


@dataclass(frozen=True, slots=True)
class FirstParentLine:
    """The first parents from a commit back to the first one not younger than `since`."""

    head: CommitId
    since: int


def expired_commits(refs: RefsSnapshot, retention: Retention | None, now: int) -> set[CommitId]:
    if retention is None:
        return set()

    default = retention.default_days
    dates = commit_dates(refs.commits)
    heads = [(each.name, each.commit_id, retention.days(each.name)) for each in refs.branches]
    heads += [(each.name, each.commit_id, default) for each in refs.tags]
    for name, commit_id, _ in heads:
        if commit_id not in dates:
            raise _missing_commit(commit_id, f"the commit of {name!r}")
    lines = [FirstParentLine(commit_id, now - days * DAY) for _, commit_id, days in heads]
    first = {each.id: each.parents[0] for each in refs.commits if each.parents}
    retained = kept_commits(lines, now - default * DAY, dates, first.get)
    return {each.id for each in refs.commits} - retained


def commit_dates(commits: Iterable[Commit]) -> dict[CommitId, int]:
    """Return dates at least as late as those of all ancestors.

    `commits` has parents first. Without this correction, one commit with a slow clock would make
    all its ancestors expire. Raises CorruptFileError if a parent is missing.
    """
    dates: dict[CommitId, int] = {}
    for each in commits:
        for parent in each.parents:
            if parent not in dates:
                raise _missing_commit(parent, f"a parent of commit {each.id}")
        above = (dates[parent] for parent in each.parents)
        dates[each.id] = max([each.creation_date, *above])
    return dates


def _missing_commit(commit_id: CommitId, what: str) -> CorruptFileError:
    return CorruptFileError(
        f"the commit {commit_id}, {what}, is missing, so it is unknown which commits expire. "
        "Nothing was collected. `sparklake check` shows the damage, and `sparklake "
        "repair` restores commits from a refs dump"
    )


def kept_commits(
    lines: Sequence[FirstParentLine],
    since: int,
    commit_dates: Mapping[CommitId, int],
    first_parent: Callable[[CommitId], CommitId | None],
) -> set[CommitId]:
    """Return the commits kept by lines, and commits after `since` outside of all lines.

    No commit may be older than its first parent. Each commit is visited about once.
    """
    retained: set[CommitId] = set()
    # The longest line comes first: where a later line meets an earlier one, its commits are
    # kept.
    for line in sorted(lines, key=lambda each: each.since):
        for each in _behind(line.head, retained, first_parent):
            retained.add(each)
            if commit_dates[each] <= line.since:
                break
    led: set[CommitId] = set()
    for line in lines:
        led.update(_behind(line.head, led, first_parent))
    return retained | {
        each for each, date in commit_dates.items() if date > since and each not in led
    }


def _behind(
    head: CommitId, visited: set[CommitId], first_parent: Callable[[CommitId], CommitId | None]
) -> Iterable[CommitId]:
    """Yield a commit and its first parents, up to the first visited commit, exclusive."""
    commit: CommitId | None = head
    while commit is not None and commit not in visited:
        yield commit
        commit = first_parent(commit)


def expired_error(commit_id: CommitId) -> ExpiredError:
    return ExpiredError(
        f"commit {commit_id[:12]} has expired by the retention rules of the repository: a "
        "garbage collection may have deleted its objects, so it can no longer be used. "
        "`sparklake log` shows which commits are kept, and `sparklake gc rules show` for how "
        "long",
        commit_id,
    )


def collected_error(commit_id: CommitId) -> ExpiredError:
    return ExpiredError(
        f"commit {commit_id[:12]} has expired, and a garbage collection has deleted its tree by "
        "the rules of the repository: it can no longer be listed or compared. `sparklake log` "
        "still shows it, and `sparklake gc rules show` for how long trees are kept",
        commit_id,
    )


def _check_days(days: int) -> None:
    if not 0 <= days <= MAX_DAYS:
        raise InvalidInputError(
            f"a retention of {days} days is invalid: choose 0 to {MAX_DAYS:,} days"
        )
