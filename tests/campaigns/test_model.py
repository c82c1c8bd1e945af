"""The model keeps its rules with all guards, and breaks one without any single guard."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from campaigns.model.exploration import explore, mutations, scenarios
from campaigns.model.lake import ALL_GUARDS, Guards

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "proof.md"

(
    ONE_BRANCH,
    EQUAL,
    TWO_BRANCHES,
    MERGES,
    UNDO,
    SUSPENDED,
    EQUAL_SUSPENDED,
    WRITTEN_AGAIN,
    TREE_MERGES,
    TREE_UNDO,
    CACHED,
    DEAD_SWEEP,
    DUMP,
    PURGE,
    EQUAL_PURGE,
) = scenarios(ALL_GUARDS)

CAUGHT = {
    "fence_is_read_first": (ONE_BRANCH, "were deleted"),
    "fence_is_compared_when_staging": (ONE_BRANCH, "were deleted"),
    "fence_is_compared_when_publishing": (EQUAL, "were deleted"),
    "head_is_compared": (MERGES, "main lost p=x"),
    "layers_are_compared": (EQUAL, "a reset had dropped"),
    "layers_are_sealed_before_they_are_read": (ONE_BRANCH, "main lost q=x"),
    "ranges_are_written_before_the_move": (ONE_BRANCH, "names the range"),
    "dead_ranges_are_replaced": (EQUAL, "were deleted"),
    "deleted_addresses_stay_empty": (SUSPENDED, "were deleted"),
    "sweeps_have_their_own_markers": (SUSPENDED, "were deleted"),
    "lists_are_claimed_once": (SUSPENDED, "were deleted"),
    "claimed_lists_are_completed": (SUSPENDED, "were deleted"),
    "adoption_waits_for_the_sweep": (EQUAL, "were deleted"),
    "objects_are_listed_before_the_fence": (ONE_BRANCH, "were deleted"),
    "fence_is_raised": (ONE_BRANCH, "were deleted"),
    "names_are_read_with_the_fence": (ONE_BRANCH, "were deleted"),
    "staged_objects_are_named": (ONE_BRANCH, "were deleted"),
    "covered_layers_are_named": (ONE_BRANCH, "were deleted"),
    "marker_is_set_before_the_fence": (EQUAL, "were deleted"),
    "marker_is_kept_until_the_end": (EQUAL, "were deleted"),
    "undo_compares_the_head": (UNDO, "main lost q=x"),
    "candidates_are_refused": (WRITTEN_AGAIN, "names the range"),
    "candidates_are_refused_before_the_put": (WRITTEN_AGAIN, "names the range"),
    "candidates_are_announced_before_the_marker": (TREE_UNDO, "names the range"),
    "tree_files_are_named_again_at_the_fence": (TREE_UNDO, "names the range"),
    "expiry_is_marked_with_the_fence": (TREE_UNDO, "a head has no tree"),
    "moves_refuse_collected_trees": (TREE_UNDO, "a head has no tree"),
    "bases_keep_their_trees": (CACHED, "the base of two branches"),
    "dumped_trees_are_named": (DUMP, "the dump names a tree"),
    "dumps_exclude_sweeps": (DUMP, "the dump names a tree"),
    "caches_start_anew_after_a_sweep": (CACHED, "were deleted"),
    "sweep_is_counted_before_the_marker_is_removed": (CACHED, "were deleted"),
    "interrupted_sweep_is_counted": (DEAD_SWEEP, "were deleted"),
    "purge_refuses_live_paths": (PURGE, "were deleted"),
    "purge_raises_the_fence": (EQUAL_PURGE, "were deleted"),
    "purge_marker_is_set_before_the_fence": (EQUAL_PURGE, "were deleted"),
    "purge_marker_is_kept_until_the_end": (EQUAL_PURGE, "were deleted"),
    "adoption_waits_for_the_purge": (EQUAL_PURGE, "were deleted"),
}
"""The scenario that catches each missing guard, and the rule that it breaks."""

LEAST_STATES = {
    ONE_BRANCH: 20_000,
    EQUAL: 30_000,
    TWO_BRANCHES: 10_000,
    MERGES: 60_000,
    UNDO: 50_000,
    SUSPENDED: 40_000,
    EQUAL_SUSPENDED: 80_000,
    WRITTEN_AGAIN: 2000,
    TREE_MERGES: 60_000,
    TREE_UNDO: 6000,
    CACHED: 6000,
    DEAD_SWEEP: 10_000,
    DUMP: 2000,
    PURGE: 10_000,
    EQUAL_PURGE: 10_000,
}


def timed(scenario: str, *values: object) -> Any:
    """Return a case of a test: `make test-slow` runs it if its scenario takes seconds."""
    is_slow = LEAST_STATES[scenario] > 5000
    return pytest.param(*values, id=str(values[0]), marks=pytest.mark.exhaustive if is_slow else [])


@pytest.mark.parametrize("name", [timed(each, each) for each in LEAST_STATES])
def test_no_state_breaks_a_rule(name: str) -> None:
    result = explore(scenarios(ALL_GUARDS)[name])
    assert result.rule is None, "\n".join(result.steps)
    assert result.states >= LEAST_STATES[name]


@pytest.mark.parametrize(
    ("name", "guards"), [timed(CAUGHT[each[0]][0], *each) for each in mutations()]
)
def test_a_missing_guard_is_caught(name: str, guards: Guards) -> None:
    scenario, words = CAUGHT[name]
    result = explore(scenarios(guards)[scenario])
    assert result.rule is not None
    assert words in result.rule
    assert result.steps


def test_the_table_of_mutations_contains_every_guard() -> None:
    names = {each.name for each in fields(Guards)}
    assert CAUGHT.keys() == names
    rows = re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert names <= set(rows)


def test_the_documented_places_of_guards_exist() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    paths = re.findall(r"`(sparklake/[\w/]+\.py)`", page)
    assert [each for each in paths if not (ROOT / each).is_file()] == []
    code = [each.read_text(encoding="utf-8") for each in (ROOT / "sparklake").rglob("*.py")]
    methods = re.findall(r"`([A-Z]\w+)\.(\w+)`", page)
    assert [
        f"{owner}.{name}"
        for owner, name in methods
        if not any(f"class {owner}" in each and f"def {name}(" in each for each in code)
    ] == []
    assert len(paths) > 10
    assert len(methods) > 5


def test_the_page_contains_the_number_of_scenarios() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    assert f"The {len(scenarios(ALL_GUARDS))} scenarios" in page
