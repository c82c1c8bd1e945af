"""No two modules import each other, directly or by way of others, wherever the imports are."""

from __future__ import annotations

from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def cycle(imports: Mapping[str, Set[str]]) -> list[str]:
    """Return modules of which each imports or is imported by the next, back to the first."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Return what each module imports, in functions too, but not what only types need."""
    graph = grimp.build_graph("sparklake", exclude_type_checking_imports=True, cache_dir=None)
    return {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}


def test_no_modules_import_each_other(imports: dict[str, set[str]]) -> None:
    assert cycle(imports) == []


def test_an_import_in_a_function_counts(imports: dict[str, set[str]]) -> None:
    guard, run = "sparklake.verbs.hooks.guard", "sparklake.verbs.hooks.run_event"
    assert run in imports[guard]
    assert set(cycle({**imports, run: {*imports[run], guard}})) == {guard, run}
