"""The common parts of all campaigns: options, figures, and a round's replay line."""

from __future__ import annotations

import argparse
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STORES = ("local", "s3")
"""The kinds of object stores by default: a folder, and a bucket of the tests' S3 server."""

_ROUNDS_OF_A_LINE = 100

Cell = tuple[str, str]
"""A row of the figures, and the column of an outcome."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a campaign. `only` repeats one round."""

    rounds: int
    seed: int
    only: str | None = None
    table: Path | None = None
    stores: tuple[str, ...] = STORES
    verbs: tuple[str, ...] = ()
    """The verbs that kills and faults meet; none means all."""

    @property
    def replay_options(self) -> str:
        """The command-line options for the same rounds."""
        stores = "" if self.stores == STORES else f" --stores {' '.join(self.stores)}"
        return f"--seed {self.seed}{stores}"


@dataclass(slots=True)
class Figures:
    """The outcomes of all rounds, by verb or kind, and the broken rounds."""

    counts: Counter[Cell] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """The number of rounds."""
        return sum(self.counts.values())


def parse_options(description: str, rounds: int, arguments: Sequence[str] | None = None) -> Options:
    """Parse the command line of a campaign."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="how many rounds")
    parser.add_argument("--seed", type=int, default=1, help="what chooses them")
    parser.add_argument("--only", help="repeat one round: the text that a broken round prints")
    parser.add_argument("--stores", nargs="+", default=STORES, help="some of local, s3 and azure")
    parser.add_argument(
        "--verbs", nargs="+", default=(), help="the verbs to kill, or to run with faults"
    )
    parser.add_argument("--table", type=Path, help="the file of the figures")
    values = vars(parser.parse_args(arguments))
    # A campaign that is ended early reports its figures.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    return Options(**{**values, **{name: tuple(values[name]) for name in ("stores", "verbs")}})


def run_rounds(
    module: str, options: Options, rounds: Iterable[str], run: Callable[[str], Cell]
) -> Figures:
    """Run the rounds, each named by a text; print how to repeat a broken one, and go on."""
    figures, start = Figures(), time.monotonic()
    for number, name in enumerate([options.only] if options.only else rounds, 1):
        if number % _ROUNDS_OF_A_LINE == 0:
            print(f"{number} rounds", file=sys.stderr, flush=True)
        try:
            figures.counts[run(name)] += 1
        except KeyboardInterrupt:
            break  # The figures so far are reported.
        except Exception as error:
            figures.counts[(name.split(":")[0], "broken")] += 1
            figures.broken.append(name)
            replay = f"python -m {module} {options.replay_options} --only '{name}'"
            print(f"{replay}\n    {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            if options.only:
                raise
    figures.seconds = time.monotonic() - start
    return figures


def report(title: str, options: Options, figures: Figures, command: str) -> None:
    """Print the figures as a table, and write them to a file if requested."""
    text = _document(title, options, figures, command)
    print(text)
    if options.table is not None:
        options.table.write_text(text, encoding="utf-8")
    if figures.broken:
        sys.exit(1)


def _document(title: str, options: Options, figures: Figures, command: str) -> str:
    columns = sorted({column for _, column in figures.counts})
    rows = sorted({row for row, _ in figures.counts})
    head = ["", *columns, "all"]
    lines = [_line(head), _line(["---", *("---:" for _ in head[1:])])]
    for row in rows:
        counts = [figures.counts[row, column] for column in columns]
        lines.append(_line([row, *map(str, counts), str(sum(counts))]))
    sums = [sum(figures.counts[row, column] for row in rows) for column in columns]
    lines.append(_line(["**all**", *map(str, sums), f"**{figures.total}**"]))
    body = "\n".join(lines)
    return (
        f"# {title}\n\n`{command} --rounds {options.rounds} {options.replay_options}`: "
        f"{figures.total} rounds in {figures.seconds:.0f} s, {len(figures.broken)} broken. "
        f"Python {platform.python_version()}, {platform.system()}.\n\n{body}\n"
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
