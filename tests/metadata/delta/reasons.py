"""The reasons of rejected unions of Delta logs, extracted from the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sparklake

ROOT = Path(sparklake.__file__).parent
MODULES = [
    *sorted((ROOT / "metadata" / "delta").rglob("*.py")),
    *sorted((ROOT / "metadata" / "union").rglob("*.py")),
    *sorted((ROOT / "verbs" / "delta").rglob("*.py")),
    ROOT / "verbs" / "tables" / "unions.py",
]
GAP = "…"
"""Stands for a value in a message."""


def reasons() -> Iterator[str]:
    """Yield the texts of refusals, with gaps for values."""
    trees = [ast.parse(each.read_text("utf-8")) for each in MODULES]
    everywhere = {name: each for tree in trees for name, each in _constants(tree)}
    for tree in trees:
        constants = everywhere | dict(_constants(tree))
        for each in ast.walk(tree):
            if isinstance(each, ast.Call) and _called(each.func) in _CALLS and each.args:
                yield _text(each.args[0], constants)
            elif isinstance(each, ast.FunctionDef) and each.name.startswith("_misfit"):
                yields = (part.value for part in ast.walk(each) if isinstance(part, ast.Yield))
                yield from (_text(part, constants) for part in yields if part is not None)


_CALLS = {"UnmergeableTableError", "refused"}


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for each in tree.body:
        if isinstance(each, ast.Assign):
            yield from ((_name(target), each.value) for target in each.targets)


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else _name(node)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr, constants: dict[str, ast.expr]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each, constants) for each in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, constants)
    if isinstance(node, ast.Name) and node.id in constants:
        return _text(constants[node.id], constants)
    return GAP
