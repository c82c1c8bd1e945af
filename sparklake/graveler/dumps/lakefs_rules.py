"""lakeFS's garbage-collection and branch-protection rules in a storage namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import DecodeError

from sparklake.errors import InvalidInputError
from sparklake.graveler.guards import Action, ProtectionRule
from sparklake.graveler.messages import ProtectionRulesMessage, RetentionRulesMessage
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.retention import BranchRetention, Retention
from sparklake.namespace.layout import PROTECTION_RULES_KEY, RETENTION_RULES_KEY

_STAGING_WRITE, _COMMIT = 0, 1

# A write includes resets in lakeFS. A commit includes hard resets.
_ACTIONS = {_STAGING_WRITE: (Action.STAGE, Action.RESET), _COMMIT: (Action.COMMIT, Action.RESET)}


@dataclass(slots=True)
class LakefsRules:
    """The adoptable rules, and notes on the others."""

    retention: Retention | None = None
    protection: tuple[ProtectionRule, ...] = ()
    notes: list[str] = field(default_factory=list)


def find_lakefs_rules(store: ObjectStore, renamed: Callable[[str], str]) -> LakefsRules:
    """Return the rules in a namespace. `renamed` maps a branch to its new name."""
    found = LakefsRules()
    retention = _find(store, RETENTION_RULES_KEY, RetentionRulesMessage, found)
    if retention is not None:
        days = {each.key: each.value for each in retention.branch_retention_days}
        _take_retention(found, retention.default_retention_days, days, renamed)
    protection = _find(store, PROTECTION_RULES_KEY, ProtectionRulesMessage, found)
    if protection is not None:
        rules = {
            each.key: each.value.value for each in protection.branch_pattern_to_blocked_actions
        }
        found.protection = tuple(
            rule
            for pattern, actions in sorted(rules.items())
            if (rule := _protection_rule(found, renamed(pattern), actions)) is not None
        )
    return found


def _find(store: ObjectStore, key: str, message: Any, found: LakefsRules) -> Any:
    if store.find(key) is None:
        return None
    body = store.get(key)
    try:
        return message.FromString(body) if body else None
    except DecodeError:
        found.notes.append(
            f"the rules in {key} are not in lakeFS's format, and were not taken over"
        )
        return None


def _take_retention(
    found: LakefsRules, default: int, days: Mapping[str, int], renamed: Callable[[str], str]
) -> None:
    branches = [
        rule
        for branch, count in sorted(days.items())
        if (rule := _branch_retention(found, renamed(branch), count)) is not None
    ]
    try:
        found.retention = Retention(default, tuple(branches))
    except InvalidInputError as error:
        found.notes.append(f"lakeFS's rules of garbage collection were not taken over: {error}")


def _branch_retention(found: LakefsRules, branch: str, days: int) -> BranchRetention | None:
    try:
        return BranchRetention(branch, days)
    except InvalidInputError as error:
        found.notes.append(
            f"lakeFS's retention of the branch {branch!r} was not taken over: {error}"
        )
        return None


def _protection_rule(found: LakefsRules, pattern: str, blocked: list[int]) -> ProtectionRule | None:
    actions = frozenset(action for each in blocked for action in _ACTIONS.get(each, ()))
    try:
        return ProtectionRule(pattern, actions)
    except InvalidInputError as error:
        found.notes.append(f"lakeFS's protection of {pattern!r} was not taken over: {error}")
        return None
