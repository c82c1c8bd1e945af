"""Random histories of two branches over one Iceberg table, merged.

    python -m campaigns.iceberg.merges --rounds 300 --seed 1 --table figures.md

pyiceberg writes them, or, where Iceberg's jar is installed (`make test-iceberg` does that), Spark:

    python -m campaigns.iceberg.merges --rounds 300 --verbs "spark vectors"

The rows must be those of a serial order of both sides' changes, or the merge is refused with its
reason.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.iceberg.branch_tables import TABLE, BranchTable
from campaigns.iceberg.spark_changes import PARTS, SAME_ROWS, Row, Rows, SparkChange
from campaigns.iceberg.spark_tables import FORMATS, SparkTable
from campaigns.tables.session import small_session
from sparklake import Branch, Engine, Lake, MergeConflictError
from sparklake.engine.choice import Runners
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import TESTER, memory_lake
from sparklake.testing.memory import MemoryRefStore

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

MODULE = "campaigns.iceberg.merges"
KINDS = ("plain", "partitions", "version 1", "folder", "settings")
REFUSED, MERGED = "refused", "merged"
BY_EFFECT = "merged, predicates not evaluated again"

_SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "part", StringType()),
    NestedField(3, "value", LongType()),
)
_BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


class WrongRowsError(Exception):
    """The rows of a merged table are those of no serial order."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of rows: the removed ones by a predicate, and the added ones."""

    kind: str
    low: int = 0
    high: int = -1
    part: str | None = None
    added: Sequence[Row] = ()

    def removes(self, row: Row) -> bool:
        if self.part is not None:
            return row[1] == self.part
        return self.low <= row[2] <= self.high

    def evaluate(self, rows: Rows) -> Rows:
        return frozenset(row for row in rows if not self.removes(row)) | {*self.added}

    def write(self, table: Table) -> None:
        rows = pa.Table.from_pylist(
            [dict(zip(("id", "part", "value"), row, strict=True)) for row in self.added],
            schema=pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())]),
        )
        predicate = f"value >= {self.low} and value <= {self.high}"
        if self.part is not None:
            predicate = f"part = '{self.part}'"
        if self.kind == "append":
            table.append(rows)
        elif self.kind == "delete":
            table.delete(predicate)
        elif self.kind == "column":
            name = f"c{self.low}"
            if name not in table.schema().column_names:
                with table.update_schema() as update:
                    update.add_column(name, StringType())
        elif self.kind == "property":
            with table.transaction() as transaction:
                transaction.set_properties({f"k{self.low}": str(self.high)})
        else:
            table.overwrite(rows, overwrite_filter=predicate)


@dataclass(slots=True)
class Side:
    """The changes of a branch since base, with the rows that each removed and added."""

    branch: Branch
    rows: Rows
    changes: list[Change | SparkChange] = field(default_factory=list)
    removed: set[Row] = field(default_factory=set)
    added: set[Row] = field(default_factory=set)

    def step(self, table: BranchTable | SparkTable, change: Change | SparkChange) -> None:
        if isinstance(table, SparkTable):
            assert isinstance(change, SparkChange)
            table.run(self.branch, [change])
        else:
            assert isinstance(change, Change)
            table.commit(self.branch, change.write)
        after = change.evaluate(self.rows)
        for row in self.rows - after:
            if row in self.added:
                self.added.remove(row)
            else:
                self.removed.add(row)
        self.added |= after - self.rows
        self.rows = after
        self.changes.append(change)


@dataclass(slots=True)
class Campaign:
    seed: int
    folder: Path
    spark: SparkSession | None = None
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def run(self, name: str) -> Cell:
        """Run a round, such as `plain:3`."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            kind = name.split(":")[0]
            return kind, Round(self, kind, Random(f"{self.seed}:{name}"), Path(folder)).run()


@dataclass
class Round:
    campaign: Campaign
    kind: str
    random: Random
    folder: Path
    ids: int = 0

    table: BranchTable | SparkTable = field(init=False)

    def run(self) -> str:
        namespace, spark = str(self.folder / "namespace"), self.campaign.spark
        if spark is None:
            self.repo = memory_lake().create_repository("lake", namespace)
            self.table = self._python_table()
        else:
            lake = Lake(MemoryRefStore(), Runners(Engine.LOCAL, spark), TESTER)
            self.repo = lake.create_repository("lake", namespace)
            by_part = self.random.random() < 1 / 3
            self.table = SparkTable(self.repo, spark, self.kind, by_part=by_part)
        return self._histories()

    def _python_table(self) -> BranchTable:
        spec = _BY_PART if self.kind == "partitions" else UNPARTITIONED_PARTITION_SPEC
        return BranchTable(
            self.repo,
            self.folder / "t",
            _SCHEMA,
            spec,
            version=1 if self.kind == "version 1" else 2,
            is_numbered=self.kind == "folder",
        )

    def _histories(self) -> str:
        main = Side(self.repo.branch("main"), frozenset())
        for _ in range(self.random.randint(1, 4)):
            main.step(self.table, self._append())
        dev = Side(self.repo.create_branch("dev", "main"), main.rows)
        start, base, main = dev.branch.head.id, main.rows, Side(main.branch, main.rows)
        for side in (dev, main):
            for _ in range(self.random.randint(1, 3)):
                side.step(self.table, self._change(side.rows, side.changes))
        self._pick(base, dev, main)
        try:
            rows = self._merge(base, "dev", dev, main)
        except MergeConflictError as error:
            return self._refused(error)
        orders = _orders(dev.changes, main.changes)
        order = next((each for each in orders if _end(base, each) == rows), None)
        if order is not None and isinstance(self.table, SparkTable):
            self._run_serially(self.table, start, order, rows)
        self._after(dev, main, rows)
        return BY_EFFECT if order is None else MERGED

    def _new_rows(self) -> list[Row]:
        count = self.random.randint(1, 6)
        self.ids += count
        numbers = range(self.ids - count, self.ids)
        part = self.random.choice(PARTS)
        return [(at, part, self.random.randrange(100)) for at in numbers]

    def _append(self) -> Change | SparkChange:
        rows = self._new_rows()
        if isinstance(self.table, SparkTable):
            return SparkChange("append", self.table.by_part, 0, -1, rows)
        return Change("append", added=rows)

    def _change(self, rows: Rows, before: Sequence[Change | SparkChange]) -> Change | SparkChange:
        """Choose a change of a table with these rows, after those since the common base."""
        if isinstance(self.table, SparkTable):
            new, by_part = self._new_rows(), self.table.by_part
            evolved = any(each.kind == "partition" for each in before)
            return SparkChange.choose(self.random, rows, new, by_part=by_part, evolved=evolved)
        kinds = ["append", "append", "delete", "delete", "replace", "update"]
        if self.kind == "settings":
            kinds += ["column", "property"]
        kind = self.random.choice(kinds)
        if kind == "append":
            return Change(kind, added=self._new_rows())
        if kind in ("column", "property"):
            return Change(kind, self.random.randrange(3), -1)
        if kind == "replace":
            part = self.random.choice(PARTS)
            new = [(at, part, value) for at, _, value in self._new_rows()]
            return Change(kind, part=part, added=new)
        low = self.random.randrange(100)
        high = low + self.random.randrange(30)
        if kind == "delete":
            return Change(kind, low, high)
        hit = [row for row in rows if low <= row[2] <= high]
        return Change(kind, low, high, added=[(at, part, value + 1000) for at, part, value in hit])

    def _merge(self, base: Rows, ref: str, source: Side, dest: Side, verb: str = "merge") -> Rows:
        head = dest.branch.head.id
        try:
            if verb == "merge":
                self.repo.merge(ref, dest.branch.name, allow_empty=True)
            else:
                dest.branch.cherry_pick(ref, allow_empty=True)
        except MergeConflictError:
            if dest.branch.head.id != head:
                raise WrongRowsError("a refusal moved the branch") from None
            raise
        expected = (base - source.removed - dest.removed) | source.added | dest.added
        again = source.removed & dest.removed
        rows = self._check(dest.branch.name, expected)
        if again:
            raise WrongRowsError(f"both sides removed {sorted(again)}")
        return rows

    def _check(self, ref: str, expected: Rows) -> Rows:
        rows = [row[:3] for row in self.table.rows(ref)]
        if sorted(rows) != sorted(expected):
            raise WrongRowsError(f"{ref} has {sorted(rows)} instead of {sorted(expected)}")
        self.repo.view(ref, TABLE, "iceberg")
        return expected

    def _run_serially(
        self, table: SparkTable, start: str, order: Sequence[Change | SparkChange], rows: Rows
    ) -> None:
        """Let Spark run both sides' changes on one table."""
        changes = [each for each in order if isinstance(each, SparkChange)]
        branch = self.repo.create_branch("serial", start)
        table.run(branch, [each for each in changes if each.kind not in SAME_ROWS])
        self._check("serial", rows)
        self.campaign.counts["serial orders that Spark ran on one table"] += 1

    def _refused(self, error: MergeConflictError) -> str:
        self.campaign.reasons[_reason(str(error))] += 1
        return REFUSED

    def _pick(self, base: Rows, dev: Side, main: Side) -> None:
        """Cherry-pick source's last commit, then merge source."""
        last = dev.changes[-1]
        before = base
        earlier = Side(dev.branch, base)
        for each in dev.changes[:-1]:
            before = each.evaluate(before)
        after = last.evaluate(before)
        earlier.removed, earlier.added = {*(before - after)}, {*(after - before)}
        if earlier.removed - base:
            return  # It removes rows of commits that are not picked.
        picked = Side(self.repo.create_branch("picks", "main"), main.rows)
        picked.removed, picked.added = set(main.removed), set(main.added)
        try:
            self._merge(base, "dev", earlier, picked, "cherry-pick")
            self.campaign.counts["cherry-picks"] += 1
            self._merge(base, "dev", dev, _joined(picked, main))
            self.campaign.counts["merges after a cherry-pick"] += 1
        except MergeConflictError as error:
            self.campaign.reasons[f"cherry-pick: {_reason(str(error))}"] += 1

    def _after(self, dev: Side, main: Side, rows: Rows) -> None:
        """Revert, then go on in both branches of the merged table, and merge again."""
        counts, merged = self.campaign.counts, main.branch.head.id
        branch = self.repo.create_branch("reverts", "main")
        branch.revert("main", parent_number=1, allow_empty=True)
        self._check("reverts", main.rows)
        counts["reverts that gave the rows of dest back"] += 1
        if merged != main.branch.head.id:
            raise WrongRowsError("a revert on another branch moved main")
        after = Side(main.branch, rows)
        after.step(self.table, self._change(rows, [*dev.changes, *main.changes]))
        self._check("main", after.rows)
        counts["results that the writer read and changed"] += 1
        behind = Side(dev.branch, dev.rows)
        change = self._append()
        behind.step(self.table, change)
        try:
            self.repo.merge("main", "dev", allow_empty=True)
        except MergeConflictError as error:
            self.campaign.reasons[f"second merge: {_reason(str(error))}"] += 1
            return
        self._check("dev", change.evaluate(after.rows))
        counts["second merges, in the other direction"] += 1


def _joined(picked: Side, main: Side) -> Side:
    return Side(picked.branch, main.rows, removed=set(main.removed), added=set(main.added))


def _orders(
    source: Sequence[Change | SparkChange], dest: Sequence[Change | SparkChange]
) -> Iterator[list[Change | SparkChange]]:
    """Yield each order of both sides' changes whose rows are known."""
    total = len(source) + len(dest)
    for places in combinations(range(total), len(source)):
        ours, theirs = iter(dest), iter(source)
        order = [next(theirs if at in places else ours) for at in range(total)]
        kinds = [each.kind for each in order]
        # The rows that an overwrite replaces depend on the partitions of their files.
        if "partition" not in kinds or "overwrite" not in kinds[kinds.index("partition") :]:
            yield order


def _end(rows: Rows, order: Sequence[Change | SparkChange]) -> Rows:
    """Return the rows after changes, evaluated again."""
    for each in order:
        rows = each.evaluate(rows)
    return rows


def _reason(text: str) -> str:
    text = re.sub(r".*cannot be merged: ", "", text, flags=re.DOTALL)
    text = re.sub(r"(files|rows|again)[^:]*: .*", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"'[^']*'", "'...'", text.split(". ")[0])
    return re.sub(r"\d+", "N", text)


def campaign(
    options: Options, folder: Path, spark: SparkSession | None = None
) -> tuple[Figures, Campaign]:
    """Merge sides of random tables."""
    state = Campaign(options.seed, folder, spark)
    every = KINDS if spark is None else tuple(FORMATS)
    kinds = [each for each in every if not options.verbs or each in options.verbs]
    rounds = (f"{kinds[at % len(kinds)]}:{at // len(kinds)}" for at in range(options.rounds))
    return run_rounds(MODULE, options, rounds, state.run), state


def main() -> None:
    """Run a campaign, and print its figures."""
    options = parse_options("Merge random histories of an Iceberg table.", 300)
    with memory_folder() as folder, ExitStack() as stack:
        is_spark = not FORMATS.keys().isdisjoint(options.verbs)
        spark = stack.enter_context(small_session(folder)) if is_spark else None
        figures, state = campaign(options, folder, spark)
    try:
        report("Merges of Iceberg tables", options, figures, f"python -m {MODULE}")
    finally:
        _report(options, {"checks": state.counts, "reasons of refusals": state.reasons})


def _report(options: Options, tables: Mapping[str, Counter[str]]) -> None:
    lines = []
    for title, counts in tables.items():
        lines += ["", f"| {title} | rounds |", "| --- | ---: |"]
        lines += [f"| {name} | {number} |" for name, number in sorted(counts.items())]
    text = "\n".join(lines)
    print(text)
    if options.table is not None:
        with options.table.open("a", encoding="utf-8") as out:
            out.write(f"{text}\n")


if __name__ == "__main__":
    main()
