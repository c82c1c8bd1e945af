"""The model keeps its rules with all guards, and breaks one without any single guard."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from campaigns.model import ALL_GUARDS, Guards, empty_lake, explore, mutations, scenarios

DOCUMENT = Path(__file__).parents[2] / "docs" / "proof.md"

ONE_BRANCH, EQUAL, TWO_BRANCHES, MERGES, UNDO, PURGE = scenarios(ALL_GUARDS)

CAUGHT = {
    "fence_is_read_first": (ONE_BRANCH, "were deleted"),
    "fence_is_compared_when_staging": (ONE_BRANCH, "were deleted"),
    "fence_is_compared_when_publishing": (EQUAL, "were deleted"),
    "head_is_compared": (MERGES, "main lost p=x"),
    "layers_are_compared": (EQUAL, "a reset had dropped"),
    "layers_are_sealed_before_they_are_read": (ONE_BRANCH, "main lost q=x"),
    "ranges_are_written_before_the_move": (ONE_BRANCH, "names the range"),
    "adopted_objects_are_restored": (EQUAL, "were deleted"),
    "adoption_waits_for_the_sweep": (EQUAL, "were deleted"),
    "objects_are_listed_before_the_fence": (ONE_BRANCH, "were deleted"),
    "fence_is_raised": (ONE_BRANCH, "were deleted"),
    "names_are_read_with_the_fence": (ONE_BRANCH, "were deleted"),
    "staged_objects_are_named": (ONE_BRANCH, "were deleted"),
    "covered_layers_are_named": (ONE_BRANCH, "were deleted"),
    "marker_is_set_before_the_fence": (EQUAL, "were deleted"),
    "marker_is_kept_until_the_end": (EQUAL, "were deleted"),
    "undo_compares_the_head": (UNDO, "main lost q=x"),
    "purge_refuses_live_paths": (PURGE, "were deleted"),
}
"""The scenario that catches each missing guard, and the rule that it breaks."""

LEAST_STATES = {
    ONE_BRANCH: 20_000,
    EQUAL: 30_000,
    TWO_BRANCHES: 10_000,
    MERGES: 60_000,
    UNDO: 50_000,
    PURGE: 500,
}


def timed(scenario: str, *values: object) -> Any:
    """Return a case of a test, which is a system test if its scenario takes seconds."""
    is_quick = scenario in (ONE_BRANCH, TWO_BRANCHES, PURGE)
    return pytest.param(*values, id=str(values[0]), marks=[] if is_quick else pytest.mark.system)


@pytest.mark.parametrize("name", [timed(each, each) for each in LEAST_STATES])
def test_no_state_breaks_a_rule(name: str) -> None:
    found = explore(empty_lake(), scenarios(ALL_GUARDS)[name])
    assert found.rule is None, "\n".join(found.steps)
    assert found.states >= LEAST_STATES[name]


@pytest.mark.parametrize(
    ("name", "guards"), [timed(CAUGHT[each[0]][0], *each) for each in mutations()]
)
def test_a_missing_guard_is_caught(name: str, guards: Guards) -> None:
    scenario, words = CAUGHT[name]
    found = explore(empty_lake(), scenarios(guards)[scenario])
    assert found.rule is not None
    assert words in found.rule
    assert found.steps


def test_the_table_of_mutations_has_every_guard() -> None:
    names = {each.name for each in fields(Guards)}
    assert CAUGHT.keys() == names
    rows = re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert names <= set(rows)
