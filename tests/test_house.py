"""The house is in order: metadata, imports, links, and what no file may hold."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import sparklake
from tests.support.cases import for_each
from tests.support.wheels import built_wheel, source_tree
from tools.all_tests import KINDS, counted

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
PROJECT = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())["project"]
# tests/airflow/test_page.py imports the modules that need Airflow.
MODULES = sorted(
    each.name
    for each in pkgutil.walk_packages(sparklake.__path__, prefix="sparklake.")
    if not each.name.startswith("sparklake.airflow.")
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

MACHINE_PATH = re.compile(r"(?<![\w.~}])/(?:root|work|home|farm)/")
REGISTRY = re.compile(r"://[^\s\"']*(?:pypi|maven|crates|npm|goproxy)", re.IGNORECASE)
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X]\b(?=:))")
ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")
MARKDOWN_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def project_files() -> Iterator[Path]:
    """Yield every file that git keeps, and new ones that it does not ignore."""
    if not (ROOT / ".git").exists():
        yield from unpacked_files()
        return
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    yield from (path for name in names.split("\0") if name and (path := ROOT / name).is_file())


def unpacked_files() -> Iterator[Path]:
    """Yield what takes the place of git's list in a source archive."""
    for path in ROOT.rglob("*"):
        hidden = any(
            part.startswith(".") or part.endswith((".egg-info", "__pycache__"))
            for part in path.relative_to(ROOT).parts
        )
        if path.is_file() and not hidden:
            yield path


def project_texts() -> Iterator[tuple[Path, str]]:
    for path in project_files():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a table or an archive


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in project_texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


# --- the package ----------------------------------------------------------------------------------


def test_installed_metadata_is_that_of_the_project() -> None:
    installed = metadata.metadata("sparklake")
    assert installed["Name"] == PROJECT["name"]
    assert installed["Version"] == PROJECT["version"]
    assert installed["License-Expression"] == "Apache-2.0"
    assert SpecifierSet(installed["Requires-Python"]) == SpecifierSet(PROJECT["requires-python"])


def test_dependencies_are_bounded_on_both_sides() -> None:
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(each for extra in extras for each in extra)]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            continue
        operators = {each.operator for each in requirement.specifier}
        assert {">=", "<"} <= operators, f"{text} is not bounded on both sides"


@for_each("name", MODULES)
def test_module_imports_and_says_what_it_is_for(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip(), f"{name} has no docstring"


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "sparklake").rglob("*.py")}
    assert sorted(folder for folder in folders if not (folder / "__init__.py").is_file()) == []


def test_public_names_exist() -> None:
    public = sparklake.__all__
    assert len(set(public)) == len(public)
    for name in public:
        assert not name.startswith("_")
        getattr(sparklake, name)


def test_importing_sparklake_loads_no_spark_no_cloud_and_no_database() -> None:
    script = (
        "import json, sys, sparklake;"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    heavy = {"pyspark", "pandas", "boto3", "botocore", "psycopg", "typer", "rich"}
    assert heavy & set(json.loads(printed)) == set()


def test_the_wheel_holds_all_that_runs(tmp_path: Path) -> None:
    tree = source_tree(tmp_path / "tree")
    # A library that an earlier build left in the checkout is no part of this wheel.
    (tree / "sparklake" / "_kernels.abi3.so").touch()
    wheel = built_wheel(tree, SPARKLAKE_KERNELS="off")
    assert wheel.name.endswith("-py3-none-any.whl")
    (tree / "sparklake" / "_kernels.abi3.so").unlink()
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("sparklake/")}
    shipped = {
        path.relative_to(tree).as_posix()
        for path in (tree / "sparklake").rglob("*")
        if path.is_file()
    }
    assert packed == shipped
    assert "sparklake/py.typed" in packed


def test_the_cluster_copies_the_logging_that_we_use() -> None:
    sample = (ROOT / "conf" / "log4j2.properties").read_text()
    assert sample == (ROOT / "sparklake" / "log4j2.properties").read_text()


# --- the words ------------------------------------------------------------------------------------


@for_each("document", DOCUMENTS)
def test_links_to_files_lead_somewhere(document: Path) -> None:
    targets = MARKDOWN_LINK.findall(document.read_text(encoding="utf-8"))
    paths = [each.partition("#")[0] for each in targets if "://" not in each]
    assert [each for each in paths if each and not (document.parent / each).exists()] == []


@for_each("document", DOCUMENTS)
def test_tables_have_a_header(document: Path) -> None:
    lines = document.read_text(encoding="utf-8").splitlines()
    rules = [at for at, line in enumerate(lines) if re.match(r"\|[ :]*-", line)]
    assert [lines[at - 1] for at in rules if not lines[at - 1].startswith("|")] == []


def test_decisions_have_numbers_of_their_own() -> None:
    decisions = decision_pages()
    numbers = Counter(path.name.partition("-")[0] for path in decisions)
    assert all(re.fullmatch(r"\d{3}-[a-z0-9-]+\.md", path.name) for path in decisions)
    assert [number for number, times in numbers.items() if times > 1] == []
    for path in decisions:
        lines = path.read_text(encoding="utf-8").splitlines()
        headings = [line for line in lines if line.startswith("#")]
        assert headings[0].startswith(f"# {path.name[:3]}: ")
        assert headings[1:] == ["## Context", "## Decision", "## Consequence"]
        assert len(lines) <= 40, f"{path.name} is long for a decision"


def test_every_document_is_named_in_the_readme() -> None:
    named = set(MARKDOWN_LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}
    assert (pages - {"docs/index.md"}) | {"docs/design/README.md", "CONTRIBUTING.md"} <= named


def test_every_decision_is_in_the_index_with_its_title_and_status() -> None:
    index = (ROOT / "docs" / "design" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3}) \| \[(.+)\]\((.+)\) \| (.+) \|$", index, re.MULTILINE)
    status = re.compile(r"in force(, extended by .+)?|superseded by \d{3}")
    assert [each for *_, each in rows if not status.fullmatch(each)] == []
    titles = [path.read_text(encoding="utf-8").splitlines()[0] for path in decision_pages()]
    listed = [(f"# {number}: {title}", name) for number, title, name, _ in rows]
    assert listed == list(zip(titles, [path.name for path in decision_pages()], strict=True))


def test_the_index_explains_every_gap_in_the_numbers() -> None:
    index = (ROOT / "docs" / "design" / "README.md").read_text(encoding="utf-8")
    numbers = {int(path.name[:3]) for path in decision_pages()}
    gaps = {f"{each:03}" for each in range(1, max(numbers)) if each not in numbers}
    assert {each for each in gaps if each not in index} == set()


def decision_pages() -> list[Path]:
    return sorted(
        each for each in DOCUMENTS if each.parent.name == "design" and each.stem != "README"
    )


def test_no_file_knows_a_machine() -> None:
    assert lines_with(MACHINE_PATH) == []
    # cargo writes the name of its index into each line about a source.
    found = [line for line in lines_with(REGISTRY) if not line.startswith("kernels/Cargo.lock:")]
    assert found == []


def test_no_file_is_unfinished() -> None:
    assert lines_with(UNFINISHED) == []


def test_no_lock_file_is_kept() -> None:
    assert [path for path in project_files() if path.name == "uv.lock"] == []


def test_every_test_is_run_by_one_command() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    chosen = dict(re.findall(r'^(test[a-z-]*):.*\n\t.*-m "(.*?)"', rules, re.MULTILINE))
    commands = ("test", "test-system", "test-slow")
    for system, exhaustive in product((False, True), repeat=2):
        markers = {"system": system, "exhaustive": exhaustive}
        assert sum(eval(chosen[each], {}, markers) for each in commands) == 1, markers


def test_ci_runs_all_but_what_repeats() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    goals = re.findall(r"^make (?:--\S+ )*(.+?) <", script, re.MULTILINE)
    others = "test-airflow test-iceberg test-dbt"
    assert goals == ["lint setup-tests", "docs", "test", "test-system", others]
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    all_tests = set(re.findall(r"^(test[a-z0-9-]*):", rules, re.MULTILINE))
    # Of the first, `make test` runs all.
    assert all_tests - {"test-fast", "test-all"} == set(KINDS)


def test_the_last_line_of_all_tests_adds_up() -> None:
    lines = [
        "= 2 failed, 3 passed, 1 warning in 4.5s (0:01:02) =",
        "7 passed, 1 error in 0.1s",
        "x",
    ]
    assert counted(lines) == {"passed": 10, "failed": 3}
    assert counted(["5 passed jobs", "=== 1 passed in 3s"]) == {"passed": 1}


def test_the_names_of_tests_are_the_same_in_every_process(request: pytest.FixtureRequest) -> None:
    # Processes that share a run of the tests must agree on what there is.
    assert [each.nodeid for each in request.session.items if ADDRESS.search(each.nodeid)] == []


VARIADIC = ("joined", "_message_class", "pc.binary_join_element_wise")


def long_calls(code: str) -> Iterator[int]:
    """Yield the lines of calls that pass many arguments, and most of them by position."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and len(node.args) + len(node.keywords) >= 7:
            # Further arguments of these have no names.
            is_variadic = ast.unparse(node.func) in VARIADIC
            if len(node.args) > 4 and not is_variadic:
                yield node.lineno


def test_calls_with_seven_arguments_use_keywords() -> None:
    modules = (ROOT / "sparklake").rglob("*.py")
    calls = [f"{each}:{line}" for each in modules for line in long_calls(each.read_text("utf-8"))]
    assert calls == []
    assert list(long_calls("call(1, 2, 3, 4, 5, six=6, seven=7)")) == [1]
    assert list(long_calls("call(1, 2, 3, 4, five=5, six=6, seven=7)")) == []
