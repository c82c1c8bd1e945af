"""sparklake's side: everything through the public API, with refs in an embedded Postgres."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sparklake
from benchmarks import data
from benchmarks.measuring import Meter, Usage
from sparklake.engine.lazy_rows import Rows
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS

if TYPE_CHECKING:
    import pyarrow as pa

WARM_ENTRIES = 1_000_000
"""The maximum number of objects of the warm-up: enough for an engine to start."""


def size_of(name: str, count: int) -> int:
    """Return the number of changes of a case."""
    return count * int(name[:-1]) // 100 if name.endswith("%") else int(name)


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured operation. `tree` is the resulting metarange."""

    op: str
    mode: str
    d: int
    usage: Usage
    tree: str = ""
    ranges_read: int = 0
    ranges_written: int = 0

    @property
    def wall(self) -> float:
        return self.usage.wall


@dataclass(slots=True)
class Subject:
    """A repository to measure. Every operation makes its own branches."""

    lake: sparklake.Lake
    meter: Meter
    repo: sparklake.Repository
    count: int

    @property
    def namespace(self) -> str:
        return self.repo.info.storage_namespace

    def build(self, base: pa.Table) -> Measured:
        """Stage the columns of all objects and commit them."""
        main = self.repo.branch("main")

        def build() -> sparklake.Commit:
            main.stage(base)
            return main.commit("base")

        before = self.repo.resolve("main").id
        commit, usage = self.meter.measure(build)
        # What is staged has the ranges that the commit keeps: those are written, then read.
        read = len(self.repo.tree(commit.id).ranges)
        return self._moved("build", "all", self.count, usage, before, commit, read)

    def list_all(self) -> Measured:
        """List all objects in order, as Arrow batches."""
        rows = self.repo.objects("main")
        listed, usage = self.meter.measure(lambda: _row_count(rows))
        assert listed == self.count, (listed, self.count)
        return Measured("list", "all", listed, usage, ranges_read=len(rows.plan.opened))

    def lookup(self, d: int, seed: int = 1) -> Measured:
        """Look up random objects at once. A lookup of others has opened the tables."""
        snapshot = self.repo.at("main")
        snapshot.lookup(data.random_paths(self.count, d, seed + 1))
        paths = data.random_paths(self.count, d, seed)
        found, usage = self.meter.measure(lambda: snapshot.lookup(paths))
        assert found["path"].to_pylist() == paths
        assert not found["checksum"].null_count
        return Measured("lookup", "random", d, usage)

    def stat(self, d: int, seed: int = 1) -> Measured:
        """Look up random objects one by one, with open tables."""
        snapshot = self.repo.at("main")
        snapshot.lookup(data.random_paths(self.count, d, seed + 1))
        paths = data.random_paths(self.count, d, seed)
        found, usage = self.meter.measure(lambda: [snapshot.stat(path) for path in paths])
        assert [each.path for each in found] == paths
        return Measured("stat", "random", d, usage)

    def commit(self, mode: str, d: int, seed: int = 1) -> Measured:
        """Commit staged changes."""
        name = f"commit-{mode}-{d}-{seed}"
        branch = self._staged(name, data.changes(self.count, d, mode, seed))
        before = self.repo.resolve("main").id
        read = self._other_handle().branch(name).plan().opened
        commit, usage = self.meter.measure(lambda: branch.commit(name))
        return self._moved("commit", mode, d, usage, before, commit, read)

    def diff(self, mode: str, d: int, seed: int = 1) -> Measured:
        """Show every difference between the base and the result of `commit`."""
        name = f"commit-{mode}-{d}-{seed}"
        (rows, opened), usage = self.meter.measure(lambda: self._differences("main", name))
        assert rows == d, (rows, d)
        return Measured("diff", mode, d, usage, ranges_read=opened)

    def prepare_merge(self, mode: str, d: int, seed: int = 1) -> tuple[str, str]:
        """Make the branches of a merge; return the names of source and dest."""
        sides = data.merge_sides(self.count, d, mode, seed)
        names = (f"source-{mode}-{d}-{seed}", f"dest-{mode}-{d}-{seed}")
        for name, changes in zip(names, sides, strict=True):
            self._staged(name, changes).commit(name)
        return names

    def merge(self, mode: str, d: int, seed: int = 1) -> Measured:
        """Merge two branches that changed the same number of different objects."""
        source, dest = self.prepare_merge(mode, d, seed)
        before = self.repo.resolve(dest).id
        read = self._other_handle().plan_merge(source, dest).opened
        commit, usage = self.meter.measure(lambda: self.repo.merge(source, dest))
        return self._moved("merge", mode, d, usage, before, commit, read)

    def random_changes(
        self, sizes: Sequence[str], seed: int, repetitions: int = 1
    ) -> dict[tuple[str, str], list[Measured]]:
        """Run commit, diff and merge of random changes; return measurements by operation and size.

        Each repetition has its own changes, because existing ranges cost less.
        """
        measured: dict[tuple[str, str], list[Measured]] = {}
        for repetition in range(repetitions):
            for name in sizes:
                for operation in (self.commit, self.diff, self.merge):
                    one = operation("random", size_of(name, self.count), seed + 2 * repetition)
                    measured.setdefault((one.op, name), []).append(one)
        return measured

    def _staged(self, name: str, changes: data.Changes) -> sparklake.Branch:
        branch = self.repo.create_branch(name, "main")
        branch.stage(changes.rows())
        return branch

    def _differences(self, left: str, right: str) -> tuple[int, int]:
        rows = self.repo.diff(left, right)
        return _row_count(rows), len(rows.plan.opened)

    def _moved(
        self,
        op: str,
        mode: str,
        d: int,
        usage: Usage,
        before: str,
        commit: sparklake.Commit,
        read: int,
    ) -> Measured:
        old, new = ({each.id for each in self.repo.tree(ref).ranges} for ref in (before, commit.id))
        return Measured(op, mode, d, usage, commit.meta_range_id, read, len(new - old))

    def _other_handle(self) -> sparklake.Repository:
        """Open the repository again, so that it profits from no earlier reads."""
        return self.lake.repository(self.repo.name)


@contextmanager
def new_subject(
    lake: sparklake.Lake,
    meter: Meter,
    parent: str | Path,
    count: int,
    range_records: int = DEFAULT_RANGE_RECORDS,
) -> Iterator[Subject]:
    """Make an empty repository in a new folder of `parent`; delete it at the end."""
    name = f"bench-{time.time_ns()}"
    namespace = f"{parent}/{name}"
    repo = lake.create_repository(name, namespace, range_records=range_records)
    try:
        yield Subject(lake, meter, repo, count)
    finally:
        lake.delete_repository(name)
        if not namespace.startswith("s3://"):
            shutil.rmtree(namespace)


def warm(lake: sparklake.Lake, meter: Meter, folder: Path, count: int) -> None:
    """Run every operation once on fewer objects, to start processes and sessions."""
    entries = min(count, WARM_ENTRIES)
    base = data.write_base(folder / "warm.arrow", entries)
    with new_subject(lake, meter, folder, entries) as subject:
        subject.build(base)
        subject.list_all()
        d = size_of("1%", entries)
        for operation in (subject.commit, subject.diff, subject.merge):
            operation("random", d)
    (folder / "warm.arrow").unlink()


def quickest(measured: Iterable[Measured]) -> Measured:
    """Return the measurement with the least wall time."""
    return min(measured, key=lambda each: each.wall)


def _row_count(rows: Rows[Any]) -> int:
    return sum(batch.num_rows for batch in rows.batches())
