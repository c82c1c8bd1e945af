"""The start of small commands, before and after a change, in turns.

Each version runs as an installed package: a virtual environment with a copy of its files, compiled,
and the packages of this environment. The lake is small, and its embedded Postgres is already
running, except where noted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.report import RESULTS, output_file

ROOT = Path(__file__).parents[1]
COMMANDS = (
    "--help",
    "merge --help",
    "branch list lakefs://small",
    "log lakefs://small/main",
    "ls lakefs://small/main/",
    "stat lakefs://small/main/a/0",
    "diff lakefs://small/main~1 lakefs://small/main",
)
ALONE = ("log lakefs://small/main", "ls lakefs://small/main/")
"""Commands that also run without another user of the server, so they start and stop it."""

_RUN = "import sys; from sparklake.cli.main import main; sys.exit(main())"
_LOADED = "import sys; from sparklake.cli.main import main; main(); print(len(sys.modules))"
_HOLD = "import sys, sparklake; sparklake.connect().repositories(); print(); sys.stdin.read()"


@dataclass(frozen=True, slots=True)
class Cost:
    """The least wall time and CPU time of a command, in seconds."""

    wall: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="24a4a97", help="the commit to compare with")
    parser.add_argument("--reps", type=int, default=15)
    parser.add_argument("--table", type=output_file, default=str(RESULTS / "start.md"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sparklake-start-") as folder:
        table = compare(Path(folder), options.before, options.reps)
    options.table.write_text(table, encoding="utf-8")
    print(table)


def compare(folder: Path, commit: str, reps: int) -> str:
    """Return a table of the costs of both versions."""
    pythons = {"before": install(folder / "before", commit), "after": install(folder / "after")}
    environment = {**os.environ, "SPARKLAKE_HOME": str(folder / "home")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    make_lake(pythons["after"], folder, environment)
    rows = []
    for is_running, commands in ((True, COMMANDS), (False, ALONE)):
        holding = holder(pythons["after"], environment) if is_running else nullcontext()
        with holding:
            for command in commands:
                costs = best(pythons, command.split(), environment, reps)
                modules = [loaded(each, command, environment) for each in pythons.values()]
                rows.append(row(command, is_running, costs, modules))
    return "\n".join([*heading(commit, reps), *rows, ""])


def install(target: Path, commit: str | None = None) -> Path:
    """Install a commit, or the files here, into a new environment; return its Python."""
    venv.create(target, symlinks=True)
    site = next((target / "lib").glob("python*")) / "site-packages"
    if commit is None:
        shutil.copytree(ROOT / "sparklake", site / "sparklake")
    else:
        archive = target / "commit.tar"
        command = ["git", "archive", "--output", str(archive), commit, "sparklake"]
        subprocess.run(command, cwd=ROOT, check=True)
        with tarfile.open(archive) as files:
            files.extractall(site, filter="data")
    (site / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = target / "bin/python"
    subprocess.run([python, "-m", "compileall", "-q", site], check=True)
    return python


def make_lake(python: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Make a repository with two commits of ten objects."""
    source = folder / "source"
    source.mkdir()
    for number in range(10):
        (source / str(number)).write_text(str(number))
    run(python, ["repo", "create", "lakefs://small", str(folder / "namespace")], environment)
    for prefix in ("a", "b"):
        run(python, ["put", "-r", str(source), f"lakefs://small/main/{prefix}/"], environment)
        run(python, ["commit", "lakefs://small/main", "-m", f"add {prefix}"], environment)


@contextmanager
def holder(python: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Keep the embedded server running, as another process that uses the lake does."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [python, "-c", _HOLD], cwd=python.parent, env=environment, stdin=pipe, stdout=pipe
    ) as held:
        assert held.stdout is not None
        held.stdout.readline()
        yield


def best(
    pythons: Mapping[str, Path], words: Sequence[str], environment: Mapping[str, str], reps: int
) -> dict[str, Cost]:
    """Return the least costs of a command, of the versions in turns."""
    found: dict[str, list[Cost]] = {name: [] for name in pythons}
    for _ in range(reps):
        for name, python in pythons.items():
            found[name].append(run(python, words, environment))
    return {
        name: Cost(min(each.wall for each in costs), min(each.cpu for each in costs))
        for name, costs in found.items()
    }


def run(python: Path, words: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Run a command; return its cost, including that of a server that it starts."""
    before, start = os.times(), perf_counter()
    subprocess.run(
        [python, "-c", _RUN, *words],
        cwd=python.parent,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall, after = perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return Cost(wall, used - before.children_user - before.children_system)


def loaded(python: Path, command: str, environment: Mapping[str, str]) -> int:
    """Return the number of modules that a command loads."""
    ran = subprocess.run(
        [python, "-c", _LOADED, *command.split()],
        cwd=python.parent,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(ran.stdout.split()[-1])


def heading(commit: str, reps: int) -> list[str]:
    return [
        "# The start of small commands",
        "",
        f"Commit {commit} (before) and its successors (after), in turns, best of {reps}, with"
        f" Python {sys.version.split()[0]} and",
        "compiled bytecode, on 2 cores. CPU has the resolution of the system's clock, 10 ms. The"
        " lake has 20 objects",
        "in 2 commits. The embedded Postgres runs already, because another process uses it; in the"
        ' last rows ("alone")',
        "the command starts and stops it.",
        "",
        "| command | before, s | after, s | before, CPU s | after, CPU s | modules |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]


def row(command: str, is_running: bool, costs: Mapping[str, Cost], modules: Sequence[int]) -> str:
    name = f"`{command}`" if is_running else f"`{command}`, alone"
    before, after = costs["before"], costs["after"]
    cells = [f"{before.wall:.3f}", f"{after.wall:.3f}", f"{before.cpu:.2f}", f"{after.cpu:.2f}"]
    return f"| {name} | {' | '.join(cells)} | {modules[0]} → {modules[1]} |"


if __name__ == "__main__":
    main()
