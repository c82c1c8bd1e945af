"""The reference of the Python API: pages for mkdocstrings, with every public name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

import sparklake

PAGES = {
    "lake": ("Lake", ["connect", "Lake"]),
    "repository": ("Repository", ["Repository"]),
    "branch": ("Branch", ["Branch"]),
}
"""The pages of the largest names: title and names of `sparklake`. Another page has all others."""

MODULES = {
    "errors": ("Error classes", "sparklake.errors"),
    "strategies": ("Merge strategies", "sparklake.strategies"),
}
"""The pages of other public modules: title and module."""

RETURNED = (
    "sparklake.dataframes.LakeReader",
    "sparklake.dataframes.LakeSession",
    "sparklake.dataframes.LakeWriter",
    "sparklake.streams.LakeStreamWriter",
    "sparklake.engine.explanation.Explanation",
    "sparklake.verbs.diffs.differences.Differences",
    "sparklake.verbs.refs.settings.LiveSettings",
)
"""Classes of values that public methods return, and that have methods of their own."""


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    yield "index.md", _index()
    for page, (title, names) in PAGES.items():
        yield f"{page}.md", _page(title, map(_qualified, names))
    placed = {name for _, names in PAGES.values() for name in names}
    placed |= set(names_of(MODULES["errors"][1]))
    others = [_qualified(name) for name in sparklake.__all__ if name not in placed]
    yield "values.md", _page("Values and options", [*others, *RETURNED])
    for page, (title, module) in MODULES.items():
        names = names_of(module)
        yield f"{page}.md", _page(title, (_origin(module, each) for each in names))


def names_of(module: str) -> list[str]:
    """Return the public names of a module: those of `__all__`, or else its public classes."""
    found = import_module(module)
    classes = {name for name, each in vars(found).items() if inspect.isclass(each)}
    own = [each for each in classes if getattr(found, each).__module__ == module]
    return getattr(found, "__all__", None) or sorted(own)


def _index() -> str:
    rows = []
    for name in sparklake.__all__:
        page = next((page for page, (_, names) in PAGES.items() if name in names), "values")
        page = "errors" if name in names_of(MODULES["errors"][1]) else page
        rows.append(f"| [`{name}`]({page}.md) | {_summary(getattr(sparklake, name))} |")
    more = [f"- [{title}]({page}.md): `{module}`" for page, (title, module) in MODULES.items()]
    head = "# Python API\n\n| name of `sparklake` | meaning |\n|---|---|"
    return "\n".join([head, *rows, "", *more, ""])


def _page(title: str, names: Any) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {each}" for each in names), ""])


def _qualified(name: str) -> str:
    return _origin("sparklake", name)


def _origin(module: str, name: str) -> str:
    """Return the full name of a public name where it is defined."""
    found = getattr(import_module(module), name)
    home = getattr(found, "__module__", module)
    return f"{home}.{name}" if home.startswith("sparklake") else f"{module}.{name}"


def _summary(found: object) -> str:
    return (inspect.getdoc(found) or "").partition("\n")[0]


def undocumented() -> list[str]:
    """Return the public names without a docstring: of `sparklake`, and methods of its classes."""
    return [name for name, found in public_names() if not (inspect.getdoc(found) or "").strip()]


def functions() -> Iterator[tuple[str, list[str]]]:
    """Yield the public functions and methods with the names of their parameters."""
    for name, found in public_names():
        function = getattr(found, "__func__", found)
        if inspect.isfunction(function) and not name.startswith("sparklake.errors."):
            yield name, [each for each in inspect.signature(function).parameters if each != "self"]


def public_names() -> Iterator[tuple[str, object]]:
    for module in ("sparklake", *(module for _, module in MODULES.values())):
        for name in names_of(module):
            yield from _with_members(f"{module}.{name}", getattr(import_module(module), name))
    for each in RETURNED:
        module, _, name = each.rpartition(".")
        yield from _with_members(each, getattr(import_module(module), name))


def _with_members(name: str, found: object) -> Iterator[tuple[str, object]]:
    if inspect.isclass(found):
        yield name, found
        for owner in found.__mro__:
            if owner.__module__.startswith("sparklake"):
                yield from _members(name, owner)
    elif callable(found):
        yield name, found


def _members(name: str, owner: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties that a class defines."""
    for each, member in vars(owner).items():
        is_code = isinstance(member, property | classmethod | staticmethod | cached_property)
        if not each.startswith("_") and (is_code or inspect.isfunction(member)):
            yield f"{name}.{each}", member
