"""What errors promise to programs, and that the documents say the same."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from sparklake.cli.app import app
from sparklake.errors import SparklakeError
from sparklake.verbs.checks.report import ERROR_EXIT_CODE, WARNING_EXIT_CODE

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def errors(root: type[SparklakeError] = SparklakeError) -> Iterator[type[SparklakeError]]:
    for each in root.__subclasses__():
        if each.__module__ == "sparklake.errors":
            yield each
            yield from errors(each)


def test_every_error_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\d+) \| \S", DOCUMENT, re.MULTILINE)
    found = [(each.kind, each.__name__, str(each.exit_code)) for each in errors()]
    assert sorted(rows) == sorted(found)


@pytest.mark.system
def test_docstrings_name_only_errors_that_exist() -> None:
    package = ROOT / "sparklake"
    nodes = {each: list(ast.walk(ast.parse(each.read_text()))) for each in package.rglob("*.py")}
    classes = {each.name for each in chain(*nodes.values()) if isinstance(each, ast.ClassDef)}
    unknown = set()
    for path, members in nodes.items():
        imported = {each.name for each in members if isinstance(each, ast.alias)}
        for each in members:
            if isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef):
                names = set(re.findall(r"\b[A-Z]\w+Error\b", ast.get_docstring(each) or ""))
                names -= {*classes, *imported, *dir(builtins), "DecodeError"}  # Of protobuf.
                unknown |= {(path.relative_to(package), name) for name in names}
    assert unknown == set()


def test_every_error_has_a_kind_of_its_own() -> None:
    kinds = [each.kind for each in (SparklakeError, *errors())]
    assert len(set(kinds)) == len(kinds)


def test_exit_codes_are_said_alike() -> None:
    of_errors = (each.exit_code for each in errors())
    of_checks = (WARNING_EXIT_CODE, ERROR_EXIT_CODE)
    codes = sorted({0, SparklakeError.exit_code, *of_errors, *of_checks})
    rows = re.findall(r"^\| (\d+) \| \S", DOCUMENT, re.MULTILINE)
    assert [int(each) for each in rows] == codes
    epilog = str(app.info.epilog)
    assert [int(each) for each in re.findall(r"\d+", epilog)] == codes
