"""The cost of histories of paths: python -m benchmarks.history -n 10000.

The history has commits of a few objects each. Every tenth commit merges a side branch. Refs are in
an embedded Postgres, and files on this disk. Each query runs on a newly opened repository, so
nothing is cached.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import sparklake
from benchmarks.counting import counted_round_trips, recorded_reads
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.commits import Commit, new_commit
from sparklake.graveler.entries import Entry, entry_record
from sparklake.graveler.ids import CommitId
from sparklake.graveler.keys import EVERYTHING
from sparklake.graveler.planning.change_summary import (
    MOST_KEYS,
    KnownKeys,
    encode_summary,
    summary_between,
)
from sparklake.graveler.ports import BranchMove
from sparklake.graveler.ranges import RangeInfo, range_list
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.range_files import make_meta_range, make_range, tree_file_key

REPOSITORY = "history"
COLUMNS = ("question", "seconds", "cpu seconds", "rows", "files read", "round trips")
FOLDERS = 50
CHANGES = 3
MERGES = 10
RANGE_RECORDS = 256

Question = Callable[[sparklake.Repository], Iterable[object]]


def main() -> None:
    """Make a history, and print a table of the costs of queries."""
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
                cpu = time.process_time()
                seconds, count = _timed(partial(_all, ask, opened))
                cpu = time.process_time() - cpu
            counts = (f"{count:,}", f"{len({*reads}):,}")
            cells = (question, f"{seconds:.2f}", f"{cpu:.2f}", *counts)
            print(_line([*cells, str(len(answers))]), flush=True)


def _questions(chance: random.Random, objects: int) -> Iterator[tuple[str, Question]]:
    path = _path(chance.randrange(objects))
    folder = path[: path.rfind("/") + 1]
    yield "log", lambda repo: repo.log("main")
    yield "log of a path", lambda repo: repo.log("main", path=path)
    yield "log of a path that never was", lambda repo: repo.log("main", path="none")
    yield "log of a folder (1 of 50)", lambda repo: repo.log("main", prefix=folder)
    yield "blame of a folder (1 of 50)", lambda repo: repo.blame("main", folder)
    yield "blame of one object", lambda repo: repo.blame("main", path)
    yield "blame of everything", lambda repo: repo.blame("main")


@dataclass
class _Tree:
    """The records of a tree and its ranges, which have a fixed number of records."""

    parts: list[tuple[Record, ...]]
    ranges: list[RangeInfo]
    commit: Commit


class _Grower:
    """A writer of commits that uses only the core. Verbs would take a hundred times as long."""

    def __init__(self, repo: sparklake.Repository, objects: int) -> None:
        self.chance, self.objects = random.Random(0), objects
        self.store, self.head = repo._context.store, repo.resolve("main")
        self.paths = sorted(map(_path, range(objects)))
        self.commits: list[Commit] = []
        self.change_summaries: dict[CommitId, bytes] = {}
        empty = _Tree([()] * -(-objects // RANGE_RECORDS), [], self.head)
        self.main = self.commit(empty, "base", dict.fromkeys(range(objects), 0))

    def grow(self, count: int) -> None:
        number = 1
        while len(self.commits) < count:
            changes = self._changes(number)
            side = self.commit(self.main, f"side {number}", changes)
            for _ in range(MERGES - 2):
                number += 1
                self.main = self.commit(self.main, f"commit {number}", self._changes(number))
            number += 1
            self.main = self.commit(self.main, "merge", changes, side)

    def _changes(self, version: int) -> dict[int, int]:
        return dict.fromkeys(self.chance.sample(range(self.objects), CHANGES), version)

    def commit(
        self, base: _Tree, message: str, versions: dict[int, int], other: _Tree | None = None
    ) -> _Tree:
        """Commit a tree in which some objects have other versions; return it."""
        parts, ranges = list(base.parts), list(base.ranges)
        for at in sorted({index // RANGE_RECORDS for index in versions}):
            start = at * RANGE_RECORDS
            here = {
                index: versions[index]
                for index in versions
                if start <= index < start + RANGE_RECORDS
            }
            held = dict(enumerate(parts[at], start)) | {
                index: _record(self.paths[index], version) for index, version in here.items()
            }
            parts[at] = tuple(held[index] for index in sorted(held))
            info, file = make_range(block_of_records(parts[at]), compress=False)
            self.store.put_if_absent(tree_file_key(info.id), file)
            ranges[at : at + 1] = [info]
        tree, files = make_meta_range(ranges)
        self.store.put_many_if_absent(files)
        made = new_commit(
            parents=[base.commit, *([other.commit] if other else [])],
            committer="bench",
            message=message,
            creation_date=self.head.creation_date + len(self.commits),
            meta_range_id=tree.id,
        )
        keys = frozenset(self.paths[index].encode() for index in versions)
        # A merge takes over ranges of the other side by id, and knows no names then.
        is_known = len(keys) <= MOST_KEYS and other is None
        known = KnownKeys(keys, [EVERYTHING]) if is_known else None
        before = range_list(tuple(base.ranges))
        self.change_summaries[made.id] = encode_summary(summary_between(before, tree.ranges, known))
        self.commits.append(made)
        return _Tree(parts, ranges, made)


def _grow(repo: sparklake.Repository, commits: int, objects: int) -> int:
    grower = _Grower(repo, objects)
    grower.grow(commits)
    move = BranchMove(
        *("main", grower.head.id, grower.main.commit.id, "commit", "bench"),
        commits=tuple(grower.commits),
        change_summaries=grower.change_summaries,
        fence=0,
    )
    repo._context.refs.branches.move(move)
    return len(grower.commits)


def _record(path: str, version: int) -> Record:
    entry = Entry(address=path, size=version, checksum=f"{version}", mtime=0)
    return entry_record(path, entry)


def _path(index: int) -> str:
    return f"tables/t{index % FOLDERS:02}/part-{index:06}.parquet"


def _timed(work: Callable[[], list[object]]) -> tuple[float, int]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, len(found)


def _all(ask: Question, repo: sparklake.Repository) -> list[object]:
    return list(ask(repo))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
