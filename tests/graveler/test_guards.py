"""Branch-protection rules: their patterns, and rules that are rejected."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import InvalidInputError
from sparklake.graveler.guards import (
    TRANSACTION_PREFIX,
    Action,
    ProtectionRule,
    RepositorySettings,
    actions_of,
)
from tests.support.cases import for_each


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("main", ["main"], ["main2", "amain", "Main", "mai"]),
        ("release-*", ["release-", "release-1.2"], ["release", "a-release-1"]),
        ("*", ["a", "main"], []),
        ("v?.?", ["v1.2"], ["v1.22", "v12", "v1."]),
        ("*:joe-*-fix", ["dev:joe-1-fix", "x:joe--fix"], ["dev:joe-fix", "dev:joe-1-fixed"]),
        ("a.b+c", ["a.b+c"], ["axb+c", "a.bbc"]),
    ],
)
def test_a_rule_covers_the_matching_branches(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    rule = ProtectionRule(pattern)
    assert [each for each in (*fitting, *others) if rule.covers(each)] == fitting


@given(st.text("ab*?", min_size=1, max_size=10), st.text("ab", max_size=10))
def test_a_rule_matches_like_a_regular_expression(pattern: str, name: str) -> None:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    assert ProtectionRule(pattern).covers(name) == bool(re.fullmatch(expression, name))


def test_no_pattern_takes_exponential_time() -> None:
    """A regular expression of it would."""
    assert not ProtectionRule("*a" * 120 + "b").covers("a" * 250)


@pytest.mark.parametrize("pattern", ["", "release/*", "a b", "ünit", "a\n", "[ab]", "x" * 256])
def test_an_invalid_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(InvalidInputError):
        ProtectionRule(pattern)


def test_a_rule_without_actions_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="stage, commit, reset, delete"):
        ProtectionRule("main", frozenset())


def test_transaction_branches_are_not_protected() -> None:
    settings = RepositorySettings(protection=(ProtectionRule("*"),))
    assert settings.guard("main").protected == frozenset(Action)
    assert settings.guard(f"{TRANSACTION_PREFIX}main-1").protected == frozenset()


@for_each(
    ("verb", "actions"),
    [
        ("merge", ()),
        ("revert", ()),
        ("commit", (Action.COMMIT,)),
        ("import", (Action.COMMIT,)),
        ("cherry-pick", (Action.COMMIT,)),
        ("hard-reset", (Action.RESET,)),
        ("undo", (Action.RESET,)),
        ("rebase", (Action.COMMIT, Action.RESET)),
        ("unheard-of", (Action.COMMIT,)),
    ],
)
def test_a_verb_requires_its_actions(verb: str, actions: tuple[Action, ...]) -> None:
    assert actions_of(verb) == actions
