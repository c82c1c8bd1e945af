"""lakeFS's garbage-collection and branch-protection rules in a storage namespace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from sparklake.errors import InvalidInputError
from sparklake.graveler.guards import Action, ProtectionRule
from sparklake.graveler.messages import ProtectionRulesMessage, RetentionRulesMessage
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.retention import BranchRetention, Retention
from sparklake.layout import PROTECTION_RULES_KEY, RETENTION_RULES_KEY

T = TypeVar("T")

_STAGING_WRITE, _COMMIT = 0, 1

# A write includes resets in lakeFS. A commit includes hard resets.
_ACTIONS = {_STAGING_WRITE: (Action.STAGE, Action.RESET), _COMMIT: (Action.COMMIT, Action.RESET)}


@dataclass(slots=True)
class LakefsRules:
    """The supported rules, and notes on the others."""

    retention: Retention | None = None
    protection: tuple[ProtectionRule, ...] = ()
    notes: list[str] = field(default_factory=list)

    def adopt(self, what: str, build: Callable[[], T]) -> T | None:
        """Return a rule, or None and add a note if it is invalid."""
        try:
            return build()
        except InvalidInputError as error:
            self.notes.append(f"lakeFS's {what} not adopted: {error}")
            return None


def find_lakefs_rules(store: ObjectStore, renamed: Callable[[str], str]) -> LakefsRules:
    """Return the rules in a namespace. `renamed` maps a branch to its new name."""
    rules = LakefsRules()
    message = _find(store, RETENTION_RULES_KEY, RetentionRulesMessage, rules)
    if message is not None:
        # In a protobuf map, the last entry of a key counts.
        days = sorted({each.key: each.value for each in message.branch_retention_days}.items())
        branches = [
            rules.adopt(
                f"retention of the branch {renamed(branch)!r} was",
                partial(BranchRetention, renamed(branch), count),
            )
            for branch, count in days
        ]
        rules.retention = rules.adopt(
            "garbage-collection rules were",
            partial(Retention, message.default_retention_days, tuple(filter(None, branches))),
        )
    message = _find(store, PROTECTION_RULES_KEY, ProtectionRulesMessage, rules)
    if message is not None:
        entries = message.branch_pattern_to_blocked_actions
        blocked = sorted({each.key: each.value.value for each in entries}.items())
        protection = [
            rules.adopt(
                f"protection of {renamed(pattern)!r} was",
                partial(ProtectionRule, renamed(pattern), _actions(numbers)),
            )
            for pattern, numbers in blocked
        ]
        rules.protection = tuple(filter(None, protection))
    return rules


def _actions(numbers: Sequence[int]) -> frozenset[Action]:
    return frozenset(action for each in numbers for action in _ACTIONS.get(each, ()))


def _find(store: ObjectStore, key: str, message: Any, rules: LakefsRules) -> Any:
    if store.find(key) is None:
        return None
    body = store.get(key)
    try:
        return message.FromString(body) if body else None
    except DecodeError:
        rules.notes.append(f"the rules in {key} are not in lakeFS's format, and were not adopted")
        return None
