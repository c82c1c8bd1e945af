"""What a repository and its branches refuse: read-only repositories, protected branches.

A ref store asks these rules in the transaction that changes something, and nobody else decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sparklake.errors import CollectionBegunError, InvalidInputError, ProtectedError, ReadOnlyError
from sparklake.graveler.refs.names import check_pattern, fits
from sparklake.graveler.retention import Retention

TRANSACTION_PREFIX = "_tx-"
"""How the names of transactions' branches begin, which no rule protects."""


class Action(str, Enum):
    """What can be blocked on a branch. To merge into it and to revert on it never are."""

    STAGE = "stage"
    COMMIT = "commit"
    RESET = "reset"
    DELETE = "delete"


ALL_ACTIONS = frozenset(Action)

_UNBLOCKED_VERBS = frozenset({"merge", "revert"})
_REBASE = "rebase"
_RESETTING_VERBS = frozenset({"hard-reset", "undo"})


def actions_of(verb: str) -> tuple[Action, ...]:
    """Return what a move of a branch counts as; what counts as nothing no rule blocks.

    A rebase makes commits, and leaves behind what was there. A verb that is not known here makes
    commits, and is blocked as they are.
    """
    if verb in _UNBLOCKED_VERBS:
        return ()
    if verb == _REBASE:
        return Action.COMMIT, Action.RESET
    return (Action.RESET,) if verb in _RESETTING_VERBS else (Action.COMMIT,)


@dataclass(frozen=True, slots=True)
class Guard:
    """What one branch refuses."""

    read_only: bool = False
    protected: frozenset[Action] = frozenset()

    def check(self, branch: str, *actions: Action | None) -> None:
        """Raise ReadOnlyError or ProtectedError where the branch refuses one of some actions.

        None is an action that no protection blocks.
        """
        if self.read_only:
            raise read_only_error()
        for action in filter(self.protected.__contains__, filter(None, actions)):
            raise ProtectedError(
                f"{branch!r} is protected against {action.value!r}: work on another branch and "
                "merge it; `sparklake protect list` shows the rules"
            )


OPEN = Guard()
"""Refuses nothing."""


def read_only_error() -> ReadOnlyError:
    """Return the error of all that would change a read-only repository."""
    return ReadOnlyError(
        "the repository is read-only: `sparklake repo set lakefs://REPO --writable` lets it change"
    )


def check_fence(branch: str, found: int, begun: int | None) -> None:
    """Raise CollectionBegunError where a branch has another fence than it had; None is any."""
    if begun not in (None, found):
        raise CollectionBegunError(
            f"a garbage collection has begun since: nothing was changed on {branch!r}, try again"
        )


@dataclass(frozen=True, slots=True)
class ProtectionRule:
    """A pattern of branch names, and what is blocked on branches of such names.

    In a pattern `*` stands for any characters and `?` for one.
    """

    pattern: str
    actions: frozenset[Action] = ALL_ACTIONS

    def __post_init__(self) -> None:
        check_pattern(self.pattern)
        if not self.actions:
            known = ", ".join(each.value for each in Action)
            raise InvalidInputError(f"a rule blocks something: one or several of {known}")

    def covers(self, branch: str) -> bool:
        """Return whether the pattern fits all of a name."""
        return fits(self.pattern, branch)


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """What can be set of a repository: what it refuses, its labels, and what it keeps.

    Of each pattern there is one rule of protection, in the order of patterns. Without retention,
    every commit is kept.
    """

    read_only: bool = False
    protection: tuple[ProtectionRule, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    retention: Retention | None = None

    def guard(self, branch: str) -> Guard:
        """Return what a branch of some name refuses."""
        protected: frozenset[Action] = frozenset()
        if not branch.startswith(TRANSACTION_PREFIX):
            protected = protected.union(
                *(rule.actions for rule in self.protection if rule.covers(branch))
            )
        return Guard(self.read_only, protected)
