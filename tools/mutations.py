"""How many of some seeded faults in the code do the tests find?

`python -m tools.mutations --count 60 --seed 1` changes one operator, number or statement of a copy
of this folder at a time, and runs the tests that `make test` runs without a JVM: first the files
that import the module, then the folder of its layer. `--markers` selects others. The last line is
`found N of N`.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PACKAGES = ("graveler", "verbs", "metadata")
NOT_HERE = ("spark", "system", "airflow", "dbt", "docs", "cli", "jobs", "benchmarks", "campaigns")
"""Folders of tests that start a JVM or many processes, or are about other code."""
FAST = "not spark and not system and not exhaustive"
SECONDS = 900
"""How long one run of tests may take: a fault that never ends is found, too."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Mutation:
    """Another text for the bytes from `start` to `end` of a file."""

    path: Path
    line: int
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        """Return the place and both texts, on one line."""
        short = [" ".join(each.split())[:60] for each in (self.old, self.new)]
        return f"{self.path}:{self.line}: {short[0]} -> {short[1]}"


def _changed(node: ast.AST) -> str | None:
    """Return the text of a node with a fault, or None if it gets none."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=found):
            other = _COMPARISONS[type(operator)]()
            return f"({ast.unparse(ast.Compare(left, [other], found))})"
        case ast.BoolOp(op=ast.And(), values=values):
            return f"({ast.unparse(ast.BoolOp(ast.Or(), values))})"
        case ast.BoolOp(values=values):
            return f"({ast.unparse(ast.BoolOp(ast.And(), values))})"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"({ast.unparse(ast.BinOp(left, ast.Sub(), right))})"
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return f"({ast.unparse(ast.BinOp(left, ast.Add(), right))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            return str(not value)
        case ast.Constant(value=int(value)):
            return str(value + 1)
        case ast.Expr(value=ast.Call()):
            return "pass"
    return None


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Walk over what runs in functions: no annotations, decorators, or parts of f-strings."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(
            node, ast.Call
        ):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST) and not isinstance(each, ast.JoinedStr):
                yield each
                yield from _code(each)


def mutations(path: Path) -> Iterator[Mutation]:
    """Yield all faults that a file of the project can get."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in (each for part in function.body for each in (part, *_code(part))):
                new = _changed(node)
                if new is not None and isinstance(node, ast.expr | ast.stmt):
                    start = starts[node.lineno - 1] + node.col_offset
                    end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                    old = source[start:end].decode()
                    yield Mutation(path, node.lineno, start, end, old, new)


def sample(count: int, seed: int) -> list[Mutation]:
    """Choose faults, as many of each package."""
    chance = random.Random(seed)
    chosen: list[Mutation] = []
    for at, package in enumerate(PACKAGES):
        files = sorted((ROOT / "sparklake" / package).rglob("*.py"))
        found = {str(each): each for path in files for each in mutations(path.relative_to(ROOT))}
        share = (count + at) // len(PACKAGES)
        chosen += chance.sample([found[each] for each in sorted(found)], share)
    return chosen


def steps(copy: Path, module: Path) -> Iterator[list[str]]:
    """Yield files of tests for a module: those that import it, then the others of its layer."""
    name = re.escape(".".join(module.with_suffix("").parts))
    pattern = re.compile(rf"^(from {name} import|import {name}\b)", re.MULTILINE)
    files = [
        each
        for each in sorted((copy / "tests").rglob("test_*.py"))
        if each.relative_to(copy).parts[1] not in NOT_HERE
    ]
    direct = [str(each) for each in files if pattern.search(each.read_text(encoding="utf-8"))]
    layer = copy / Path("tests", *module.parts[1:-1])
    while not layer.is_dir():
        layer = layer.parent
    yield direct
    yield [str(each) for each in files if each.is_relative_to(layer) and str(each) not in direct]


def found_by(copy: Path, mutation: Mutation, markers: str) -> str | None:
    """Return the first test that fails with a fault, or None if all pass."""
    path = copy / mutation.path
    source = path.read_bytes()
    path.write_bytes(source[: mutation.start] + mutation.new.encode() + source[mutation.end :])
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-m", markers]
    environment = {**os.environ, "PYTHONPATH": str(copy), "CI": "true"}
    try:
        for tests in filter(None, steps(copy, mutation.path)):
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=copy,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            if done.returncode not in (0, 5):
                failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                return failed[1] if failed else "an error"
    except subprocess.TimeoutExpired:
        return "a test without end"
    finally:
        path.write_bytes(source)
    return None


def main() -> int:
    """Try all faults, and print which test found each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markers", default=FAST)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of faults")
    options = parser.parse_args()
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = [each for each in listing.stdout.decode().split("\0") if each]
    names += [str(each.relative_to(ROOT)) for each in ROOT.glob("sparklake/*.so")]
    found, tried = 0, 0
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in names:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        for number, each in enumerate(sample(options.count, options.seed)):
            if options.only is None or number in options.only:
                test = found_by(copy, each, options.markers)
                found, tried = found + (test is not None), tried + 1
                print(f"{number} {each}: {test or 'not found'}", flush=True)
    print(f"found {found} of {tried}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
