"""No two modules, and no two folders inside a layer, import each other, by way of others either."""

from __future__ import annotations

from collections import defaultdict
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


def test_no_folders_inside_a_layer_import_each_other(imports: dict[str, set[str]]) -> None:
    folders = {each.rpartition(".")[0] for each in imports} - {"", "sparklake"}
    assert [
        found for each in sorted(folders) if (found := cycle(between_parts(each, imports)))
    ] == []


def test_parts_of_a_folder_are_its_modules_and_folders() -> None:
    imports = {"a.one.x": {"a.two", "b"}, "a.two": {"a.one.y"}, "a.one.y": set[str](), "b": {"a"}}
    assert cycle(imports) == []
    assert between_parts("a", imports) == {"a.one": {"a.two"}, "a.two": {"a.one"}}


def between_parts(folder: str, imports: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Return which modules and folders directly in a folder each of them imports."""

    def part(module: str) -> str:
        inside = module.removeprefix(f"{folder}.")
        return "" if inside == module else f"{folder}.{inside.partition('.')[0]}"

    parts = defaultdict[str, set[str]](set)
    for module, others in imports.items():
        for other in map(part, others):
            if part(module) and other not in ("", part(module)):
                parts[part(module)].add(other)
    return dict(parts)
