"""Merges of tables down to rows, by a key.

    python -m campaigns.tables.row_merges --rounds 200 --seed 1 --table figures.md

Each round merges two sides that changed the same files, under a rule `rows(id)`. The rows must be
those of a three-way merge of dicts, and the conflicts the same keys. deltalake reads the rows of
tables whose features it supports.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.tables.choices import Features
from campaigns.tables.keyed_rows import IDS, Changes, RowMerge, Rows
from campaigns.tables.log_reader import Contents, WrongTableError
from campaigns.tables.merges import FEATURES
from campaigns.tables.session import small_session
from campaigns.tables.trees import PATH, compared, read_elsewhere, read_table
from sparklake import Branch, MergeConflictError, Repository
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "campaigns.tables.row_merges"
SIDES = 4
MERGED = "merged by rows"


def _contents(rows: Rows) -> Contents:
    named = ((("a", a), ("b", b), ("id", key), ("p", part)) for key, (part, a, b) in rows.items())
    return sorted(named, key=repr)


@dataclass(slots=True)
class KeyedTable:
    """A table on main, and its rows on several branches."""

    repo: Repository
    base: Rows
    sides: list[tuple[str, Rows]] = field(default_factory=list)

    @staticmethod
    def grow(spark: SparkSession, features: Features, seed: str, folder: Path) -> KeyedTable:
        random = Random(seed)
        repo = memory_lake().create_repository("tables", str(folder))
        base: Rows = {key: (key % 3, "x", "y") for key in range(IDS - 4)}
        values = ", ".join(f"({key}, {p}, '{a}', '{b}')" for key, (p, a, b) in base.items())
        rows = spark.sql(
            "SELECT /*+ REPARTITION(2) */ CAST(col1 AS BIGINT) AS id, col2 AS p, col3 AS a, "
            f"col4 AS b FROM VALUES {values}"
        )
        parts = ["p"] if features.partitioned else []
        options: dict[str, Any] = features.properties
        repo.branch("main").write(rows, PATH, "delta", partition_by=parts, **options)
        repo.branch("main").commit("created the table")
        made = KeyedTable(repo, base)
        for number in range(SIDES):
            branch, table = repo.create_branch(f"side-{number}", "main"), base
            with branch.edit_delta(PATH) as place:
                for _ in range(random.randint(1, 2)):
                    changes = Changes.of(random, table)
                    spark.sql(changes.statement(place)).collect()
                    table = changes.apply(table)
            branch.commit("changed rows", allow_empty=True)
            made.check(branch.name, table)
            made.sides.append((branch.name, table))
        return made

    def check(self, ref: str, rows: Rows) -> None:
        found = read_table(self.repo, ref)
        if found != _contents(rows):
            raise WrongTableError(f"the rows of {ref}:\n{compared(_contents(rows), found)}")


@dataclass(slots=True)
class Campaign:
    spark: SparkSession
    seed: int
    folder: Path
    _table: tuple[str, KeyedTable] | None = None

    def run(self, name: str) -> Cell:
        """Run a round: a pair of sides, such as `plain:3:0-2`."""
        features, number, pair = name.split(":")
        seed = f"{self.seed} {features} {number}"
        if self._table is None or self._table[0] != seed:
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            self._table = seed, KeyedTable.grow(self.spark, FEATURES[features], seed, folder)
        table, random = self._table[1], Random(f"{seed} {pair}")
        source, dest = (table.sides[int(each)] for each in pair.split("-"))
        columns, winner = random.random() < 0.5, random.choice([None, None, "source", "dest"])
        options = ["id", *["columns=true"] * columns, *[f"then={winner}-wins"] * bool(winner)]
        rule = f"rows({', '.join(options)})"
        expected = RowMerge.of(table.base, source[1], dest[1], columns=columns, winner=winner)
        branch = table.repo.create_branch(f"work-{pair}", dest[0])
        outcome = self._merge(table, source[0], branch, dest[1], expected, rule)
        if outcome != MERGED:
            return features, outcome
        repo, rows = table.repo, _contents(expected.rows)
        kind = FEATURES[features]
        is_read = read_elsewhere(repo, f"{branch.name}~1", kind, rows, self.folder)
        return features, f"{outcome}, read by deltalake" if is_read else outcome

    def _merge(
        self,
        table: KeyedTable,
        source: str,
        branch: Branch,
        dest: Rows,
        expected: RowMerge,
        rule: str,
    ) -> str:
        repo, before = table.repo, branch.head.id
        files = _by_files(repo, source, before, f"{branch.name}-files")
        try:
            repo.merge(source, branch.name, rules={f"{PATH}/": rule}, allow_empty=True)
        except MergeConflictError as error:
            found = {json.loads(row["key"])["id"] for row in error.conflict_rows.collect()}
            if files or found != expected.conflicts or branch.head.id != before:
                raise WrongTableError(f"conflicts {found}, not {expected.conflicts}") from error
            return "conflicts, as expected"
        if files:
            found_rows, by_files = (read_table(repo, each) for each in (branch.name, files))
            if found_rows != by_files:
                raise WrongTableError(f"not as by files:\n{compared(by_files, found_rows)}")
            return "merged by files"
        if expected.conflicts:
            raise WrongTableError(f"no conflict of {sorted(expected.conflicts)}")
        table.check(branch.name, expected.rows)
        with branch.edit_delta(PATH) as place:
            changes = Changes({0: (0, "more", "rows")})
            self.spark.sql(changes.statement(place)).collect()
        branch.commit("went on")
        table.check(branch.name, changes.apply(expected.rows))
        self._revert(table, branch, dest)
        return MERGED

    def _revert(self, table: KeyedTable, branch: Branch, dest: Rows) -> None:
        merged = table.repo.resolve(f"{branch.name}~1").id
        undo = table.repo.create_branch(f"{branch.name}-undo", merged)
        try:
            undo.revert(undo.name, parent_number=1)
        except MergeConflictError as error:
            if "change data feed" not in str(error):
                raise
            return
        table.check(undo.name, dest)


def _by_files(repo: Repository, source: str, dest: str, name: str) -> str | None:
    """Merge without a rule; return the branch, or None for a conflict."""
    branch = repo.create_branch(name, dest)
    try:
        repo.merge(source, branch.name, allow_empty=True)
    except MergeConflictError:
        return None
    return branch.name


def rounds(options: Options) -> Iterator[str]:
    """Yield the names of the rounds: tables of each kind in turn, and pairs of their sides."""
    pairs = [f"{one}-{other}" for one, other in permutations(range(SIDES), 2)]
    kinds = [each for each in FEATURES if not options.verbs or each in options.verbs]
    for number in range(options.rounds):
        table, pair = divmod(number, len(pairs))
        yield f"{kinds[table % len(kinds)]}:{table // len(kinds)}:{pairs[pair]}"


def campaign(options: Options, spark: SparkSession, folder: Path) -> Figures:
    """Merge all pairs of sides of random tables."""
    return run_rounds(MODULE, options, rounds(options), Campaign(spark, options.seed, folder).run)


def main() -> None:
    """Run a campaign, and print its figures."""
    options = parse_options("Merge tables down to rows.", 200)
    with memory_folder() as folder, small_session(folder) as spark:
        figures = campaign(options, spark, folder)
    report("Merges of rows", options, figures, f"python -m {MODULE}")


if __name__ == "__main__":
    main()
