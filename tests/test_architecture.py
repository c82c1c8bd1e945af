"""The pages for contributors agree with the code: the picture, paths and names."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "docs" / "pictures" / "architecture.py"
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")

PLACE = re.compile(r"`((?:sparklake|tests|docs|benchmarks|conf|notebooks)/[\w./-]*)`")
NAMED = re.compile(r"`(sparklake/[\w./]+\.py)`\s+\((`\w[^)]*`)\)")
NAME = re.compile(r"`(\w+)(?:\.(\w+))?`")

# Imports, modules that are run, and functions that are named by a string.
OF_TESTS = re.compile(r"\b(?:from|import) tests\b|[\"'\s]tests\.\w+")

LAYOUT = ROOT / "sparklake" / "layout.py"
SPELLED = re.compile(r"_lakefs/|_sparklake/|^data/?$|^data/")
NO_KEYS = {
    "sparklake/stores/embedded/home.py": "a folder of Postgres",
    "sparklake/testing/object_store.py": "keys that a store must accept",
    "sparklake/verbs/hooks/guard.py": "paths of hook files in the tree",
    "sparklake/verbs/tables/spark_places.py": "a path that does not exist",
}


def texts(path: Path) -> Iterator[str]:
    """Yield the texts in a module, without docstrings and messages with spaces."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    docstrings = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    for node in nodes:
        text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in docstrings and " " not in text:
            yield text


@pytest.mark.system
def test_only_the_layout_spells_keys_of_a_namespace() -> None:
    modules = {path.relative_to(ROOT).as_posix(): path for path in LAYOUT.parent.rglob("*.py")}
    assert set(NO_KEYS) <= set(modules)
    spelled = {
        name: found
        for name, path in modules.items()
        if path != LAYOUT and name not in NO_KEYS
        if (found := [each for each in texts(path) if SPELLED.search(each)])
    }
    assert spelled == {}


def test_the_layout_imports_nothing() -> None:
    code = ast.parse(LAYOUT.read_text(encoding="utf-8"))
    imports = [each for each in ast.walk(code) if isinstance(each, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(each) for each in imports] == ["from __future__ import annotations"]


def test_the_picture_is_what_its_script_draws() -> None:
    committed = SCRIPT.with_suffix(".svg").read_text(encoding="utf-8")
    drawn = runpy.run_path(str(SCRIPT))["picture"]()
    assert committed == drawn, f"run `python {SCRIPT.relative_to(ROOT)}` and commit the picture"


def test_the_history_of_the_readme_is_what_its_script_draws() -> None:
    script = SCRIPT.with_name("history.py")
    committed = script.with_suffix(".svg").read_text(encoding="utf-8")
    drawn = runpy.run_path(str(script))["graph"]().to_svg()
    assert committed == drawn, f"run `python {script.relative_to(ROOT)}` and commit the picture"


def test_the_picture_has_every_module_and_every_feature() -> None:
    drawn = SCRIPT.with_suffix(".svg").read_text(encoding="utf-8")
    package = ROOT / "sparklake"
    top = [each for each in package.glob("*.py") if each.stem != "__init__"]
    folders = [each.parent for each in package.glob("*/__init__.py")]
    shown = {f"{each.name}/" for each in folders} | {each.name for each in top}
    features = {each.stem for each in (package / "verbs").glob("[a-z]*")}
    assert {each for each in shown | features if each not in drawn} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_path_on_a_page_exists(page: str) -> None:
    paths = set(PLACE.findall((ROOT / page).read_text(encoding="utf-8")))
    assert len(paths) > 10
    assert {each for each in paths if not (ROOT / each).exists()} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_name_on_a_page_is_defined_in_its_file(page: str) -> None:
    """Check each name that follows a file in brackets, such as `file.py` (`Class.method`)."""
    found = NAMED.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(found) > 5
    missing = []
    for path, names in found:
        code = (ROOT / path).read_text(encoding="utf-8")
        for owner, member in NAME.findall(names):
            defined = [each for each in (owner, member) if each and not defines(code, each)]
            missing += [f"{path}: {each}" for each in defined]
    assert missing == []


def defines(code: str, name: str) -> bool:
    """Return whether a module defines a function, class, constant or field of a name."""
    return bool(re.search(rf"^ *(?:def |class )?{name}(?:\(| ?[:=])", code, re.MULTILINE))


STORES = ROOT / "sparklake" / "stores" / "objects"
STORE_CLASSES = {"LocalStore", "S3Store", "RemoteStore", "AzureContainer", "GoogleBucket"}
STORE_CLASSES |= {"LocalDestination", "S3Destination", "RemoteDestination"}
STORE_CLASSES |= {"LocalFiles", "ListsColumns", "TemporaryFiles"}
SCHEMES = "file|local|s3[an]?|gs|abfss?|wasbs?|az"
BARE_SCHEME = re.compile(rf"[\^(]*(?:(?:{SCHEMES}):/{{0,3}}|(?:s3[an]|abfss?|wasbs?))")
# What lakeFS reads, and how Hadoop spells paths in the files of Delta and Iceberg, are formats.
FORMATS = {
    "sparklake/graveler/dumps/lakefs_limits.py",
    "sparklake/metadata/delta/paths.py",
    "sparklake/metadata/iceberg/file_names.py",
}


def test_only_the_choice_of_kernels_imports_them() -> None:
    texts_of = {
        each.relative_to(ROOT).as_posix(): list(texts(each))
        for each in sorted((ROOT / "sparklake").rglob("*.py"))
    }
    importers = [name for name, found in texts_of.items() if any("_kernels" in t for t in found)]
    importers += [
        each.relative_to(ROOT).as_posix()
        for each in sorted((ROOT / "sparklake").rglob("*.py"))
        if re.search(r"^\s*(from|import) .*\b_kernels\b", each.read_text(encoding="utf-8"), re.M)
    ]
    assert importers == ["sparklake/graveler/kernel_choice.py"]


@pytest.mark.parametrize("folder", ["campaigns", "benchmarks"])
def test_programs_beside_the_package_use_nothing_of_the_tests(folder: str) -> None:
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert len(modules) > 20
    users = {
        each.relative_to(ROOT).as_posix(): match.group()
        for each in modules
        if (match := OF_TESTS.search(each.read_text(encoding="utf-8")))
    }
    assert users == {}


def kinds_of_stores(code: str) -> Iterator[str]:
    """Yield the classes of stores that code names, and the bare schemes that it may compare."""
    tree = ast.parse(code)
    parts = {
        id(part)
        for each in ast.walk(tree)
        if isinstance(each, ast.JoinedStr)
        for part in each.values
    }
    for each in ast.walk(tree):
        if isinstance(each, ast.Name) and each.id in STORE_CLASSES:
            yield f"{each.lineno}: {each.id}"
        elif (
            isinstance(each, ast.Constant)
            and isinstance(each.value, str)
            and id(each) not in parts
            and BARE_SCHEME.fullmatch(each.value)
        ):
            yield f"{each.lineno}: {each.value!r}"


@pytest.mark.system
def test_no_module_outside_the_stores_asks_for_the_kind_of_a_store() -> None:
    modules = (each for each in (ROOT / "sparklake").rglob("*.py") if STORES not in each.parents)
    found = [
        f"{name}:{kind}"
        for each in sorted(modules)
        if (name := str(each.relative_to(ROOT))) not in FORMATS
        for kind in kinds_of_stores(each.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        'uri.startswith("file://")',
        "uri.startswith(('s3://', 's3a://'))",
        "_FILE = 'file:'",
        "re.sub('^s3://', 's3a://', uri)",
        "uri.startswith('gs://')",
        "scheme in ('abfs', 'wasbs')",
        "isinstance(store, LocalStore)",
        "isinstance(store, RemoteStore)",
    ],
)
def test_a_question_for_the_kind_of_a_store_is_detected(code: str) -> None:
    assert list(kinds_of_stores(code))
    assert not list(kinds_of_stores('store.traits.is_local; f"s3://{bucket}/{key}"'))
