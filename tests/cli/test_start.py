"""The command as a process: what it loads, where options may stand, and what a pipe sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import sparklake
from benchmarks.counting import counted_trips
from sparklake.cli.app import NOUNS, VERBS
from sparklake.graveler import kernel_choice
from tests.cli.running import Scene, ok, run, said
from tests.cli.terminal import SCRIPT, on_terminal

LOADED = """
import json, sys
from sparklake.cli.main import main

code = main()
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""
SPARK = {"pyspark", "py4j", "pandas", "boto3", "moto"}
TABLES = {"numpy", "pyarrow", "google.protobuf", "rocksdict"}
PRINTING = {"rich", "markdown_it", "pydantic"}
DATABASE = {"psycopg", "asyncio", "msgspec"}


def loaded(*words: str) -> set[str]:
    """Return the modules that a process of a command has loaded at its end."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True
    )
    return set(json.loads(ran.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["merge", "--help"], ["repo", "--help"]], ids=" ".join
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    assert (SPARK | TABLES | PRINTING | DATABASE) & loaded(*words) == set()


def test_help_of_a_command_loads_only_this_command() -> None:
    found = loaded("merge", "--help")
    modules = {each.rpartition(":")[0] for each in VERBS.values()} | set(NOUNS.values())
    assert {each for each in modules if f"sparklake.cli.{each}" in found} == {"merges"}
    assert not any(each.startswith("sparklake.verbs") for each in found)


def test_small_commands_load_no_spark(scene: Scene) -> None:
    scene.put("main", {"a": "1"})
    for words in (
        ["ls", scene.uri("main")],
        ["commit", scene.uri("main"), "-m", "x"],
        ["diff", scene.uri("main~1"), scene.uri("main")],
    ):
        assert (SPARK | PRINTING) & loaded(*words) == set()


def test_commands_without_records_load_neither_numpy_nor_arrow(scene: Scene) -> None:
    for words in (
        ["log", scene.uri("main")],
        ["branch", "list", scene.uri()],
        ["tag", "list", scene.uri()],
        ["repo", "list"],
    ):
        # Lists of refs are tables, which rich prints.
        assert (SPARK | TABLES | {"pydantic"}) & loaded(*words) == set()
    assert "rich" not in loaded("log", scene.uri("main"))


def test_a_listing_loads_no_verb_that_writes(scene: Scene) -> None:
    scene.put("main", {"a": "1"})
    found = loaded("ls", scene.uri("main"))
    assert {"pyarrow.parquet", "sparklake.engine.execution"} & found == set()
    writing = {"commits", "delta", "exports", "gc", "imports", "merges", "purges", "tables"}
    modules = tuple(f"sparklake.verbs.{each}" for each in writing)
    # The plug-in of a table format imports the code for tables on its first use.
    plug_in = {"sparklake.verbs.delta", "sparklake.verbs.delta.format"}
    assert {each for each in found if each.startswith(modules)} <= plug_in


def test_arrow_finds_no_pandas_even_if_it_is_imported_later(scene: Scene) -> None:
    code = (
        "import sys; from sparklake._lightness import keep_pandas_out;"
        "keep_pandas_out(); assert 'pyarrow' not in sys.modules;"
        "import pyarrow; pyarrow.array([1]); assert 'pandas' not in sys.modules;"
        "import pandas"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Four are for the version of the schema, one for the repository, and one for the branch with its
# commit. A log also needs the ancestors, which of them have expired, and all names.
@pytest.mark.parametrize(("verb", "expected"), [("ls", 6), ("log", 10)])
def test_reads_take_few_round_trips(scene: Scene, verb: str, expected: int) -> None:
    scene.commit("main", {"a": "1"})
    with counted_trips() as trips:
        ok(verb, scene.uri("main"))
    assert len(trips) == expected, trips


def test_the_script_prints_its_version_and_its_kernels() -> None:
    ran = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"sparklake {version('sparklake')}, kernels: {kernel_choice.advice()}\n"


def test_the_version_says_that_kernels_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKLAKE_KERNELS", "off")
    ran = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == (
        f"sparklake {version('sparklake')}, kernels: Python (SPARKLAKE_KERNELS is off): "
        f"{kernel_choice.COST}; unset SPARKLAKE_KERNELS\n"
    )


@pytest.mark.system
def test_the_script_works_as_the_module_does(scene: Scene) -> None:
    scene.put("main", {"a": "1"})
    ran = subprocess.run(
        [SCRIPT, "commit", scene.uri("main"), "-m", "x", "--output", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    assert json.loads(ran.stdout) == said("log", scene.uri("main"))[0]
    ran = subprocess.run([SCRIPT, "ls", scene.uri("no")], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (13, "")
    assert ran.stderr.startswith("error: ")
    assert "Traceback" not in ran.stderr


def test_global_options_stand_anywhere(scene: Scene, tmp_path: Path) -> None:
    expected = said("branch", "list", scene.uri())
    for words in (
        ["--output", "json", "branch", "list", scene.uri()],
        ["branch", "--output", "json", "list", scene.uri()],
        ["branch", "list", "--output", "json", scene.uri()],
        ["branch", "list", scene.uri(), "--output=json"],
        ["--output", "text", "branch", "list", scene.uri(), "--output", "json"],
    ):
        assert run(*words).json == expected
    home = os.environ.pop("SPARKLAKE_HOME")
    for words in (
        ["--home", home, "branch", "list", scene.uri(), "--output", "json"],
        ["branch", "list", scene.uri(), "--home", home, "--output", "json", "--engine", "local"],
    ):
        assert run(*words).json == expected
    os.environ["SPARKLAKE_HOME"] = home
    scene.put("main", {"a": "1"})
    assert said("commit", scene.uri("main"), "-m", "--output")["message"] == "--output"


def test_dsn_comes_from_the_environment(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKLAKE_DSN", dsn)
    assert said("repo", "list") == []


@pytest.mark.system
def test_odd_names_stay_on_their_line(scene: Scene) -> None:
    ok("put", "-", scene.uri("main", "a\nb\x1b[31mc\u00a0d"), stdin=b"1")
    (line,) = ok("ls", "-r", scene.uri("main")).splitlines()
    assert line.endswith("a\\nb\\x1b[31mc\\xa0d")
    assert scene.paths("main") == ["a\nb\x1b[31mc\u00a0d"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ok("put", "-", scene.uri("main", "é"), stdin=b"1")
    for words, seen in ((["ls"], "\\xe9"), (["ls", "--output", "json"], "\\u00e9")):
        ran = subprocess.run(
            [SCRIPT, *words, scene.uri("main", "é")],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert seen in ran.stdout


def test_long_names_are_not_wrapped_in_a_pipe(scene: Scene) -> None:
    name = "b" * 250
    ok("branch", "create", scene.uri(name), "--source", scene.uri("main"))
    assert ok("branch", "list", scene.uri()).splitlines()[1].split()[0] == name


@pytest.mark.system
def test_a_terminal_sees_colours_unless_it_is_told_not_to(scene: Scene) -> None:
    scene.put("main", {"a": "1"})
    coloured = on_terminal("diff", scene.uri("main"))
    assert "\x1b[32m+ added" in coloured
    assert "\x1b[" in on_terminal("branch", "list", scene.uri())
    for unwanted in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[3" not in on_terminal("diff", scene.uri("main"), **unwanted)
    assert "\x1b[" not in on_terminal("diff", scene.uri("main"), "--output", "json")


def test_the_public_names_are_found_on_demand() -> None:
    assert set(sparklake.__all__) <= set(dir(sparklake))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sparklake.nothing
