"""The quickstart, told on sample orders, on a small folder and on what cannot be one."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from examples.quickstart.__main__ import main
from examples.quickstart.command import program_to_type
from examples.quickstart.demo import fresh_place
from examples.quickstart.orders import COLUMNS, SHOPS, order_files, write_orders
from sparklake.graveler import kernel_choice
from sparklake.testing.azurite import fresh_container
from sparklake.testing.lakes import files_below, memory_lake
from sparklake.testing.s3_server import fresh_bucket
from tests.cli.running import Ran, ok, run, said
from tests.support.gcs_server import Buckets, fresh_gcs_bucket
from tests.support.s3_server import s3a_settings

ROOT = Path(__file__).parents[2]


def demo(*arguments: str) -> Ran:
    """Run the demo, whatever comes of it."""
    return run(*arguments, program=main)


def refused(code: int, *arguments: str) -> str:
    """Run the demo, which must fail alike in text and JSON; return what it reports."""
    found, text = demo("--output", "json", *arguments), demo(*arguments)
    error: str = found.json["error"]
    assert (found.code, found.err) == (code, "")
    assert (text.code, text.err) == (code, f"error: {error}\n")
    return error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with odd names in it."""
    made = tmp_path / "files of mine"
    (made / "sub").mkdir(parents=True)
    for at in range(40):
        (made / f"file {at} 100%.txt").write_text("x" * at)
    (made / "sub" / "what?#.csv").write_bytes(bytes(20_000))
    return made


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_story(folder: Path, home: Path) -> None:
    before = files_below(folder)
    steps = {each["title"]: each for each in demo("--output", "json", str(folder)).json}
    assert files_below(folder) == before
    assert [each["step"] for each in steps.values()] == list(range(1, 16))
    assert sum(each["seconds"] for each in steps.values()) < 120
    name, namespace = latest(home)
    check_what_it_did(name, steps)
    ran = demo(str(folder))
    assert ran.code == 0
    assert " 1. Create a repository" in ran.text
    assert "! conflict  files/file 0 100%.txt" in ran.text
    assert "$ sparklake tag create" in ran.text
    assert ">>> repo.read('main', 'tables/inventory')" in ran.text
    another, _ = latest(home)
    assert another != name
    for command in commands_to_try(ran.err, another):
        ok(*command)
    ok("repo", "delete", "--yes", f"lakefs://{name}")
    assert namespace.is_dir()


def check_what_it_did(name: str, steps: dict[str, Any]) -> None:
    uri = f"lakefs://{name}"
    assert any(
        "41 objects" in fact for fact in steps["Import the files without copying them"]["facts"]
    )
    (conflicts, merged) = (
        steps[title]["facts"]
        for title in ("Merge: some objects are in conflict", "Merge, and let the branch win")
    )
    assert len([line for line in conflicts if line.startswith("! conflict")]) == 3
    log = said("log", f"{uri}/main")
    assert merged[0].startswith(f"commit {log[0]['id'][:12]}")
    assert len(log) == 7
    assert len(log[0]["parents"]) == 2
    read = steps["Read main, an older commit and the tag through Spark"]["facts"]
    assert read == [
        "main: 41 rows of path, size, kilobytes, size_class",
        "main^2~2: 41 rows of path, size, size_class",
        "v1-imported: 41 objects, and no table yet",
    ]
    assert ok("cat", f"{uri}/main/files/file 0 100%.txt") == "as on Joe's branch\n"
    assert ok("cat", f"{uri}/v1-imported/files/file 1 100%.txt") == "x"
    assert not any(each["dirty"] for each in said("branch", "list", uri))


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_story_of_sample_orders(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    ran = demo("--home", str(home))
    assert ran.code == 0, ran
    files = dict(order_files())
    rows = sum(text.count("\n") - 1 for text in files.values())
    assert f"{len(files)} files with the orders of three shops" in ran.err
    assert f"{len(files)} objects" in ran.text
    for version in (
        f"main: {rows:,} rows of order_id, day, customer, product, quantity, price, amount, shop",
        f"main^2~2: {rows:,} rows of order_id, day, customer, product, quantity, price, shop",
    ):
        assert version in ran.text
    assert ran.err.startswith(f"kernels: {kernel_choice.advice()}\n")
    suggested = [shlex.split(line) for line in ran.err.splitlines() if line.startswith("  ")]
    assert len(suggested) == 5
    for program, *words in suggested[:-1]:
        assert shutil.which(program) is not None
        assert words[-2:] == ["--home", str(home)]
        ok(*words)
    deletion = suggested[-1]
    assert deletion[-3:] == ["rm", "-r", str(home / "quickstart" / "quickstart")]
    ok(*deletion[1 : deletion.index("&&")], "--yes")
    assert said("repo", "list", "--home", str(home)) == []


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.parametrize(
    "kind",
    ["s3", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("azure", "google"))],
)
def test_the_story_in_a_bucket(
    kind: str, request: pytest.FixtureRequest, home: Path, tmp_path: Path
) -> None:
    place: str = request.getfixturevalue(f"{kind}_place")
    # In a process of its own, because Spark's Python workers have the environment of its start.
    ran = subprocess.run(
        [sys.executable, "-m", "examples.quickstart", "--store", f"{place}/demos/"],
        cwd=ROOT,
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran
    made = re.search(r"\$ sparklake repo create lakefs://(\S+) (\S+)\n", ran.stdout)
    assert made is not None
    name, namespace = made.groups()
    assert namespace == f"{place}/demos/{name}"
    folder = home / "quickstart" / name
    assert said("repo", "show", f"lakefs://{name}")["storage_namespace"] == namespace
    assert ("main^2~2: 1,2" if kind == "s3" else "hadoop-azure") in ran.stdout
    assert f"v1-imported: {61 * len(SHOPS)} objects" in ran.stdout
    commands = [shlex.split(line) for line in ran.stderr.splitlines() if line.startswith("  ")]
    assert commands[-1][-3:] == ["rm", "-r", str(folder)]
    assert f"\nThen delete {namespace}/ with the tools of its store.\n" in ran.stderr
    for command in commands[:-1]:
        ok(*command[1:])
    ok("repo", "delete", "--yes", f"lakefs://{name}")
    shutil.rmtree(folder)


@pytest.fixture
def s3_place(s3_env: dict[str, str], tmp_path: Path) -> str:
    settings = (f"spark.hadoop.{name} {value}\n" for name, value in s3a_settings(s3_env).items())
    (tmp_path / "spark-defaults.conf").write_text("".join(settings))
    return f"s3://{fresh_bucket(s3_env)}"


@pytest.fixture
def azure_place(azure_env: dict[str, str]) -> str:
    return fresh_container(azure_env)


@pytest.fixture
def google_place(gcs_env: dict[str, str], gcs_double: tuple[str, Buckets]) -> str:
    return fresh_gcs_bucket(gcs_double[1])


def test_a_place_with_objects_is_not_used(tmp_path: Path) -> None:
    lake, home, store = memory_lake(), tmp_path / "home", tmp_path / "store"
    store.mkdir()
    for number in ("", "-2"):
        name, place, namespace = fresh_place(lake, home, str(store))
        assert name == f"quickstart{number}"
        assert (place, namespace) == (home / "quickstart" / name, f"file://{store}/{name}")
        (store / name).mkdir()
        (store / name / "object").touch()
    assert fresh_place(lake, home, None)[2] == str(home / "quickstart/quickstart/storage")


def test_commands_to_try_work_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "an env" / "bin" / "sparklake"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert program_to_type(script) == f"'{script}'"
    for here, typed in (
        (tmp_path, "'an env/bin/sparklake'"),
        (script.parents[1], "bin/sparklake"),
        (script.parent, f"'{script}'"),
    ):
        monkeypatch.chdir(here)
        assert program_to_type(script) == typed
        assert shutil.which(*shlex.split(typed)) is not None
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin")
    assert program_to_type(script) == "sparklake"
    assert program_to_type(tmp_path / "no-such-program") == "sparklake"


def test_it_runs_as_a_module_of_a_clone() -> None:
    words = [sys.executable, "-m", "examples.quickstart"]
    usage = subprocess.run([*words, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert usage.stdout.startswith("Usage: python -m examples.quickstart [OPTIONS] [DIR]\n")
    failed = subprocess.run(
        [*words, "no-such-folder", "--output", "json"], cwd=ROOT, capture_output=True, text=True
    )
    assert (failed.returncode, json.loads(failed.stdout)["kind"]) == (2, "invalid_input")


def test_the_orders_are_the_same_and_make_sense(tmp_path: Path) -> None:
    assert write_orders(tmp_path) == len(files_below(tmp_path)) == 61 * len(SHOPS)
    assert dict(order_files()) == dict(order_files())
    numbers: Counter[str] = Counter()
    for name, text in order_files():
        assert (tmp_path / name).read_text() == text
        shop, day = name.removesuffix(".csv").split("/")
        orders = list(csv.DictReader(text.splitlines()))
        assert orders
        for order in orders:
            assert list(order) == COLUMNS.split(",")
            assert (order["shop"], order["day"]) == (shop, day)
            assert date.fromisoformat(day)
            assert float(order["price"]) > 0
            assert int(order["quantity"]) > 0
            numbers[order["order_id"]] += 1
    assert set(numbers.values()) == {1}


def latest(home: Path) -> tuple[str, Path]:
    """Return the repository of the latest quickstart, and its namespace."""
    names = [each["name"] for each in said("repo", "list")]
    name = max((each for each in names if each.startswith("quickstart")), key=len)
    return name, home / "quickstart" / name


def commands_to_try(text: str, name: str) -> list[list[str]]:
    """Return the commands that the story ends with, but for the one that deletes it."""
    lines = [shlex.split(line) for line in text.splitlines() if line.startswith("  ")]
    assert "--home" not in text
    assert len(lines) == 5
    assert all(name in " ".join(words) for words in lines)
    return [words[1:] for words in lines[:-1]]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert "is not a folder" in refused(2, str(tmp_path / "nothing"))
    (tmp_path / "file").write_text("1")
    assert "is not a folder" in refused(2, str(tmp_path / "file"))


def test_a_folder_without_files(tmp_path: Path) -> None:
    (tmp_path / "sub" / "sub").mkdir(parents=True)
    assert "has no files" in refused(2, str(tmp_path))


def test_a_folder_that_holds_the_lake(home: Path) -> None:
    assert "contains the home of the lake" in refused(2, str(home.parent))
    assert "contains the home of the lake" in refused(2, str(home))


def test_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "examples.quickstart.demo.find_spec", lambda name: importlib.util.find_spec("no_such_one")
    )
    assert "pip install 'sparklake[spark]'" in refused(15)
