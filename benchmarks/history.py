"""Measures the history of paths: python -m benchmarks.history -n 10000.

Makes commits of a few objects each, every tenth of them a merge of a side branch, with refs in an
embedded Postgres and files on this disk. Each question is asked in a process' state of its own:
nothing has been read before.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator

import sparklake
from sparklake.graveler.entries import Entry, entry_record
from tests.support.reads import recorded_reads
from tests.support.round_trips import counted_round_trips

REPOSITORY = "history"
COLUMNS = ("question", "seconds", "rows", "files read", "round trips")
FOLDERS = 50
CHANGES = 3
MERGES = 10
RANGE_RECORDS = 256


def main() -> None:
    """Makes a history and prints a table of what questions about it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=10_000, help="commits")
    parser.add_argument("--objects", type=int, default=5_000)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="history-") as folder,
        sparklake.connect(home=folder, engine="local") as lake,
    ):
        repo = lake.create_repository(
            REPOSITORY, f"{folder}/namespace", range_records=RANGE_RECORDS
        )
        seconds, _ = _timed(lambda: [_grow(repo, args.n, args.objects)])
        print(f"{args.n} commits, {args.objects} objects; made in {seconds:.0f} s\n")
        print(_line(COLUMNS), _line(["---", *["---:"] * (len(COLUMNS) - 1)]), sep="\n")
        for question, ask in _questions(random.Random(1), args.objects):
            # As opened just now: nothing is kept of what was read.
            opened = lake.repository(REPOSITORY)
            with recorded_reads() as reads, counted_round_trips() as answers:
                seconds, count = _timed(lambda opened=opened, ask=ask: list(ask(opened)))
            cells = (question, f"{seconds:.2f}", f"{count:,}", f"{len(reads):,}")
            print(_line([*cells, str(len(answers))]), flush=True)


def _questions(
    chance: random.Random, objects: int
) -> Iterator[tuple[str, Callable[[sparklake.Repository], object]]]:
    path = _path(chance.randrange(objects))
    folder = path[: path.rfind("/") + 1]
    yield "log", lambda repo: repo.log("main")
    yield "log of a path", lambda repo: repo.log("main", path=path)
    yield "log of a path that never was", lambda repo: repo.log("main", path="none")
    yield "log of a folder (1 of 50)", lambda repo: repo.log("main", prefix=folder)
    yield "blame of a folder (1 of 50)", lambda repo: repo.blame("main", folder)
    yield "blame of one object", lambda repo: repo.blame("main", path)
    yield "blame of everything", lambda repo: repo.blame("main")


def _grow(repo: sparklake.Repository, commits: int, objects: int) -> int:
    chance, main = random.Random(0), repo.branch("main")
    _stage(repo, "main", range(objects), 0)
    main.commit("base")
    for number in range(1, commits - 1):
        if number % MERGES:
            _stage(repo, "main", chance.sample(range(objects), CHANGES), number)
            main.commit(f"commit {number}")
            continue
        side = repo.create_branch(f"side-{number}", "main")
        _stage(repo, side.name, chance.sample(range(objects), CHANGES), number)
        side.commit(f"side {number}")
        _stage(repo, "main", chance.sample(range(objects), CHANGES), number + 1)
        main.commit(f"commit {number}")
        repo.merge(side.name, "main", "source-wins")
        repo.delete_branch(side.name)
    return commits


def _stage(repo: sparklake.Repository, branch: str, indices: object, version: int) -> None:
    """Stages objects that are nowhere, as `put` does, but in one statement."""
    records = [
        entry_record(path, Entry(address=path, size=version, checksum=f"{version}", mtime=0))
        for path in map(_path, indices)  # type: ignore[call-overload]
    ]
    repo._context.refs.staging.put(branch, records)


def _path(index: int) -> str:
    return f"tables/t{index % FOLDERS:02}/part-{index:06}.parquet"


def _timed(work: Callable[[], list[object]]) -> tuple[float, int]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, len(found)


def _line(cells: object) -> str:
    return f"| {' | '.join(cells)} |"  # type: ignore[call-overload]


if __name__ == "__main__":
    main()
