"""The output of a benchmark: a table, and rows of JSON."""

from __future__ import annotations

import json
import os
import platform
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparklake.graveler import kernel_choice

RESULTS = Path(__file__).parent / "results"

Rows = Sequence[Mapping[str, Any]]


def new_parser(description: str | None, name: str | None = None) -> ArgumentParser:
    """Return a parser with the options of every benchmark.

    With a name, the table and the rows are written to files of that name in `results/`.
    """
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the change sets")
    parser.add_argument("--reps", type=int, default=3, help="repetitions, of which the best counts")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder")
    for option, suffix in (("--json", "json"), ("--table", "md")):
        default = str(RESULTS / f"{name}.{suffix}") if name else None
        parser.add_argument(option, type=output_file, default=default, help=f"default: {default}")
    return parser


def output_file(text: str) -> Path:
    """Return the path of an output; without compiled kernels, reject one in `results/`."""
    path = Path(text)
    if not kernel_choice.is_compiled() and RESULTS in path.resolve().parents:
        raise ArgumentTypeError(
            f"{path} is for figures of compiled kernels: write elsewhere, or get them. "
            f"Kernels of this process: {kernel_choice.advice()}"
        )
    return path


def write(args: Namespace, title: str, notes: Sequence[str], rows: Rows, table: Rows = ()) -> None:
    """Print a table and write the requested files. The table shows `table`, or else `rows`."""
    text = "\n".join([f"# {title}", "", *_wrapped([machine(), *notes]), markdown(table or rows)])
    print(text)
    if args.table:
        args.table.write_text(text + "\n")
    if args.json:
        args.json.write_text("".join(json.dumps(row) + "\n" for row in rows))


def machine() -> str:
    """Return a description of the machine and the software."""
    load = os.getloadavg()[2]
    return (
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"load {load:.1f} over the last 15 minutes. Kernels: {kernel_choice.description()}."
    )


def markdown(rows: Rows) -> str:
    """Return rows as a table with the columns of the first row."""
    names = list(rows[0])
    numeric = [any(isinstance(row[name], int | float) for row in rows) for name in names]
    rule = ["---:" if each else "---" for each in numeric]
    lines = [names, rule, *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{_decimals(value)}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _decimals(value: float) -> int:
    return 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3


def _wrapped(notes: Iterable[str]) -> list[str]:
    return [line for note in notes for line in (note, "")]
