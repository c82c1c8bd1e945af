"""Guards: read-only repositories and protected branches, checked by the ref store alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from sparklake.errors import (
    CollectionStartedError,
    InvalidInputError,
    ProtectedError,
    ReadOnlyError,
)
from sparklake.graveler.refs.names import check_pattern, fits
from sparklake.graveler.retention import Retention

TRANSACTION_PREFIX = "_tx-"
"""The prefix of transaction branches. Branch-protection rules do not apply to them."""


class Action(str, Enum):
    """An action blocked by branch-protection rules. Merges and reverts are never blocked."""

    STAGE = "stage"
    COMMIT = "commit"
    RESET = "reset"
    DELETE = "delete"


ALL_ACTIONS = frozenset(Action)


# A rebase makes commits and abandons the previous ones.
_ACTIONS: dict[str, tuple[Action, ...]] = {
    "merge": (),
    "revert": (),
    "rebase": (Action.COMMIT, Action.RESET),
    "hard-reset": (Action.RESET,),
    "undo": (Action.RESET,),
}


def actions_of(verb: str) -> tuple[Action, ...]:
    """Return the actions of a verb on a branch. An unknown verb counts as a commit."""
    return _ACTIONS.get(verb, (Action.COMMIT,))


@dataclass(frozen=True, slots=True)
class Guard:
    """The rejected actions of one branch."""

    read_only: bool = False
    protected: frozenset[Action] = frozenset()

    def check(self, branch: str, *actions: Action | None) -> None:
        """Raise ReadOnlyError or ProtectedError for a rejected action. None is never blocked."""
        if self.read_only:
            raise read_only_error()
        for action in filter(self.protected.__contains__, filter(None, actions)):
            raise ProtectedError(
                f"{branch!r} is protected against {action.value!r}: work on another branch and "
                "merge it; `sparklake protect list` shows the rules"
            )


OPEN = Guard()  # A guard that refuses nothing.


def read_only_error() -> ReadOnlyError:
    return ReadOnlyError(
        "the repository is read-only: `sparklake repo set lakefs://REPO --writable` allows changes"
    )


def check_fence(branch: str, fence: int, expected: int | None) -> None:
    """Reject a branch's changed fence. None skips the check."""
    if expected not in (None, fence):
        raise CollectionStartedError(
            f"nothing was changed on {branch!r}: a garbage collection or a purge started. Try again"
        )


@dataclass(frozen=True, slots=True)
class ProtectionRule:
    """A pattern of branch names, with `*` and `?`, and the blocked actions."""

    pattern: str
    actions: frozenset[Action] = ALL_ACTIONS

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        if not self.actions:
            names = ", ".join(each.value for each in Action)
            raise InvalidInputError(f"a rule must block at least one of {names}")

    def covers(self, branch: str) -> bool:
        return fits(self.pattern, branch)


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """The settings of a repository: guards, labels and retention.

    `protection` has one rule per pattern, in the order of patterns. Without retention, every commit
    is kept.
    """

    read_only: bool = False
    protection: tuple[ProtectionRule, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    retention: Retention | None = None

    def guard(self, branch: str) -> Guard:
        protected: frozenset[Action] = frozenset()
        if not branch.startswith(TRANSACTION_PREFIX):
            protected = protected.union(
                *(rule.actions for rule in self.protection if rule.covers(branch))
            )
        return Guard(self.read_only, protected)

    def with_renamed_branch(self, old: str, new: str) -> RepositorySettings:
        """Return the settings after the rename of a branch, protected and retained as before.

        Rules of the exact old name become rules of the new name.
        """
        rules = {each.pattern: each.actions for each in self.protection}
        if old in rules:
            rules[new] = rules.pop(old) | rules.get(new, frozenset())
        moved = self._with_rules(rules)
        missing = self.guard(old).protected - moved.guard(new).protected
        if missing:
            moved = self._with_rules({**rules, new: rules.get(new, frozenset()) | missing})
        if self.retention is None:
            return moved
        return replace(moved, retention=self.retention.with_renamed_branch(old, new))

    def _with_rules(self, rules: Mapping[str, frozenset[Action]]) -> RepositorySettings:
        return replace(
            self, protection=tuple(ProtectionRule(*each) for each in sorted(rules.items()))
        )
