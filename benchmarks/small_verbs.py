"""Verbs on one object: python -m benchmarks.small_verbs -n 1000 1000000.

Round trips to Postgres and milliseconds of verbs that write few bytes or none, on a local store and
the embedded server. A network between the driver and Postgres adds its latency to each round trip.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median

import pyarrow as pa

import sparklake
from benchmarks import data
from benchmarks.counting import counted_trips
from benchmarks.report import machine, output_file

RESULT = Path(__file__).parent / "results" / "small-verbs.md"
COLUMNS = ("objects", "verb", "round trips", "ms, best", "ms, median")

Prepared = Callable[[], Callable[[], object]]
"""A function that prepares one call of a verb, and returns it."""

_bodies = count()


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a verb: round trips of one call, and milliseconds of several."""

    objects: int
    verb: str
    trips: int
    ms: Sequence[float]

    @property
    def row(self) -> str:
        cells = f"{self.objects:,}", self.verb, self.trips
        times = f"{min(self.ms):.1f}", f"{median(self.ms):.1f}"
        return line(*cells, *times)


def main() -> None:
    """Measure each verb, and write a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, nargs="+", default=[1000, 1_000_000], dest="counts")
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="where the lakes are made")
    parser.add_argument("--table", type=output_file, default=str(RESULT))
    args = parser.parse_args()
    costs: list[Cost] = []
    for objects in args.counts:
        with tempfile.TemporaryDirectory(prefix="small-", dir=args.folder) as folder:
            costs += measured(Path(folder), objects, args.reps)
    head = line(*COLUMNS), line("---:", ":---", *["---:"] * 3)
    table = "\n".join([*head, *(each.row for each in costs)]) + "\n"
    notes = __doc__.partition("\n\n")[2].strip()
    args.table.write_text(f"# Small verbs\n\n{machine()}\n\n{notes}\n\n{table}")
    print(table)


def line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def measured(folder: Path, objects: int, reps: int) -> Iterator[Cost]:
    """Yield the cost of each verb in a repository with a number of objects."""
    with sparklake.connect(home=folder / "home", engine="local") as lake:
        repo = lake.create_repository("small", str(folder / "namespace"))
        main = repo.branch("main")
        main.stage(pa.Table.from_batches(data.entries(objects)))
        main.commit("base")
        for verb, prepared in verbs(repo).items():
            yield Cost(objects, verb, trips_of(prepared), milliseconds_of(prepared, reps))


def trips_of(prepared: Prepared) -> int:
    """Return the round trips of one call. An earlier one has opened the connection."""
    prepared()()
    act = prepared()
    with counted_trips() as sent:
        act()
    return len(sent)


def milliseconds_of(prepared: Prepared, reps: int) -> list[float]:
    times = []
    for _ in range(reps):
        act = prepared()
        start = time.perf_counter()
        act()
        times.append(1000 * (time.perf_counter() - start))
    return times


def verbs(repo: sparklake.Repository) -> dict[str, Prepared]:
    main = repo.branch("main")
    names = (f"work-{number}" for number in count())

    def put(branch: sparklake.Branch) -> object:
        return branch.put("data/part-0000/changed", b"%d" % next(_bodies))

    def diverged() -> str:
        name = next(names)
        branch = repo.create_branch(name, "main")
        branch.put(f"own/{name}", b"1")
        branch.commit("change")
        return name

    def first_put() -> Callable[[], object]:
        main.reset()
        return lambda: put(main)

    def next_put() -> Callable[[], object]:
        put(main)
        return lambda: put(main)

    def commit() -> Callable[[], object]:
        put(main)
        return lambda: main.commit("change")

    def create() -> Callable[[], object]:
        return lambda: repo.create_branch(next(names), "main")

    def merge_nothing() -> Callable[[], object]:
        name = diverged()
        repo.merge(name, "main")
        return lambda: repo.merge(name, "main", if_needed=True)

    def merge_one_side() -> Callable[[], object]:
        name = diverged()
        return lambda: repo.merge(name, "main")

    def merge_both_sides() -> Callable[[], object]:
        name = diverged()
        repo.merge(diverged(), "main")
        return lambda: repo.merge(name, "main")

    return {
        "put, the first after a commit": first_put,
        "put": next_put,
        "commit of one object": commit,
        "branch": create,
        "merge, nothing to merge": merge_nothing,
        "merge, one side changed": merge_one_side,
        "merge, both sides changed": merge_both_sides,
    }


if __name__ == "__main__":
    main()
