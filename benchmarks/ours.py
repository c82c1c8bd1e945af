"""Runs sparklake's side: everything through the public API, the refs in an embedded Postgres."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import sparklake
from benchmarks import data
from sparklake.graveler.tables import read_meta_range
from sparklake.scratch import scratch_folder
from sparklake.stores.objects import open_store

if TYPE_CHECKING:
    import pyarrow as pa

CASES = tuple((mode, name) for mode in ("random", "cluster") for name in ("100", "1%", "20%"))
MERGE_CASES = tuple(case for case in CASES if case[1] != "20%")


def size_of(name: str, count: int) -> int:
    """Returns the number of changes that a case's name stands for."""
    return count * int(name[:-1]) // 100 if name.endswith("%") else int(name)


@dataclass(frozen=True, slots=True)
class Measured:
    """Is one timed operation; times in seconds."""

    op: str
    mode: str
    d: int
    wall: float
    cpu: float
    meta_range_id: str = ""
    ranges_written: int = 0


@dataclass(slots=True)
class Run:
    """Is one repetition: a fresh repository, and every operation once."""

    repo: sparklake.Repository
    count: int
    cases: tuple[tuple[str, str], ...]
    measured: list[Measured] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return self.repo.info.storage_namespace

    def all(self, base: pa.Table) -> list[Measured]:
        self._build(base)
        for mode, name in self.cases:
            self._commit_and_diff(mode, size_of(name, self.count))
        for mode, name in self.cases:
            if (mode, name) in MERGE_CASES:
                self._merge(mode, size_of(name, self.count))
        return self.measured

    def _build(self, base: pa.Table) -> None:
        main = self.repo.branch("main")
        with self._timed("build", "all", self.count, "main"):
            main.stage(base)
            main.commit("base")
        with self._timed("list", "all", self.count):
            rows = sum(batch.num_rows for batch in self.repo.objects("main").batches())
        assert rows == self.count

    def _commit_and_diff(self, mode: str, d: int) -> None:
        changes = data.changes(self.count, d, mode)
        name = f"commit-{mode}-{d}"
        branch = self._staged(name, changes)
        with self._timed("commit", mode, d, name):
            branch.commit(name)
        with self._timed("diff", mode, d):
            rows = sum(batch.num_rows for batch in self.repo.diff("main", name).batches())
        assert rows == d, (rows, d)

    def _merge(self, mode: str, d: int) -> None:
        name = f"dest-{mode}-{d}"
        for side, changes in zip(
            ("source", "dest"), data.merge_sides(self.count, d, mode), strict=True
        ):
            self._staged(f"{side}-{mode}-{d}", changes).commit(side)
        with self._timed("merge", mode, d, name):
            self.repo.merge(f"source-{mode}-{d}", name)

    def _staged(self, name: str, changes: list[data.Change]) -> sparklake.Branch:
        branch = self.repo.create_branch(name, "main")
        branch.stage(data.change_rows(changes))
        return branch

    @contextmanager
    def _timed(self, op: str, mode: str, d: int, ref: str | None = None) -> Iterator[None]:
        before = self._ranges(ref) if ref else set()
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        tree = self.repo.resolve(ref).meta_range_id if ref else ""
        written = len(self._ranges(ref) - before) if ref else 0
        self.measured.append(Measured(op, mode, d, wall, cpu, tree, written))

    def _ranges(self, ref: str) -> set[str]:
        with scratch_folder() as scratch:
            tree = read_meta_range(
                open_store(self.folder), self.repo.resolve(ref).meta_range_id, scratch
            )
        return {each.id for each in tree.ranges}


def run(
    lake: sparklake.Lake,
    folder: Path,
    base: pa.Table,
    cases: tuple[tuple[str, str], ...],
    range_records: int,
) -> tuple[str, list[Measured]]:
    """Runs one repetition; returns its storage namespace and what was measured."""
    name = f"bench-{time.time_ns()}"
    repo = lake.create_repository(name, str(folder / name), range_records=range_records)
    return str(folder / name), Run(repo, base.num_rows, cases).all(base)
