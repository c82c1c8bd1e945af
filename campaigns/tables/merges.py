"""Random histories of two branches over one Delta table, merged.

    python -m campaigns.tables.merges --rounds 600 --seed 1 --table figures.md

Each round merges two sides of a table, which Spark changed. The rows must be those of a serial
order of both sides' operations, or the merge is refused with its reason.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.tables.choices import Features
from campaigns.tables.families import SIDES, Family, State, create, run
from campaigns.tables.log_reader import Contents, WrongTableError
from campaigns.tables.operations import Operation, Table
from campaigns.tables.serial import Effect, find_order, orders
from campaigns.tables.session import small_session
from campaigns.tables.trees import compared, read_elsewhere, read_table
from sparklake import Branch, MergeConflictError
from sparklake.testing.folders import memory_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "campaigns.tables.merges"
FEATURES = {
    each.name: each
    for each in (
        Features("plain"),
        Features("partitions", partitioned=True),
        Features("change feed", partitioned=True, change_feed=True),
        Features("vectors", vectors=True),
        Features("mapping", partitioned=True, mapping=True),
        Features("row tracking", row_tracking=True),
        Features("all", partitioned=True, vectors=True, mapping=True, row_tracking=True),
    )
}
PAIRS = SIDES * (SIDES - 1)

REFUSED = "refused"
MERGED = "merged"
BY_EFFECT = "merged, predicates not evaluated again"
_SAMPLE = 8


class RefusedError(Exception):
    """A conflict, with its reason."""


@dataclass(slots=True)
class Campaign:
    spark: SparkSession
    seed: int
    folder: Path
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    _family: tuple[str, Family] | None = None

    def run(self, name: str) -> Cell:
        """Run a round: a pair of sides, such as `plain:3:0-2`."""
        features, number, pair = name.split(":")
        family = self._grown(features, int(number))
        first, second = map(int, pair.split("-"))
        random = Random(name)
        at, to = (random.randrange(1, len(family.sides[each])) for each in (first, second))
        source, dest = family.sides[first][: at + 1], family.sides[second][: to + 1]
        outcome = Pair(self, family, source, dest, random).run()
        return features, outcome

    def _grown(self, features: str, number: int) -> Family:
        name = f"{features}:{number}"
        if self._family is None or self._family[0] != name:
            seed = self.seed * 1_000_000 + number
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            family = Family.grow(self.spark, FEATURES[features], seed, folder)
            self._family = name, family
        return self._family[1]


@dataclass(slots=True)
class Pair:
    """The states of two sides since their common base, to merge in one direction."""

    campaign: Campaign
    family: Family
    source: list[State]
    dest: list[State]
    random: Random

    def run(self) -> str:
        """Merge, revert, continue and merge again; pick a commit."""
        source, dest = self.source[-1], self.dest[-1]
        self._pick()
        branch = self.family.branch(dest.ref)
        try:
            end = self._merge(source.ref, branch, self.family.base, source.effects, dest.effects)
        except RefusedError as refusal:
            self.campaign.reasons[str(refusal)] += 1
            return REFUSED
        is_serial = self._is_serial(source, dest, end)
        self._revert(end, dest)
        self._read_elsewhere(end)
        self._continue(branch, end)
        return MERGED if is_serial else BY_EFFECT

    def _merge(
        self,
        ref: str,
        branch: Branch,
        base: State,
        source: tuple[Effect, ...],
        dest: tuple[Effect, ...],
        *,
        picks: bool = False,
    ) -> State:
        """Merge or cherry-pick a ref, and check the rows."""
        before = branch.head.id
        with self._refusals(branch, before):
            if picks:
                branch.cherry_pick(ref, allow_empty=True)
            else:
                self.family.repo.merge(ref, branch.name, allow_empty=True)
        head = branch.head.id
        found = read_table(self.family.repo, head)
        ends = orders(base.table, source, dest, Effect.repeat)
        end = next(((end, order) for end, order in ends if end.contents() == found), None)
        if end is None:
            raise WrongTableError(
                f"no serial order leads to the rows of {head}:\n"
                f"{_described(base.table, source, dest, found)}"
            )
        table, order = end
        return State(head, tuple(order), table)

    @contextmanager
    def _refusals(self, branch: Branch, before: str) -> Iterator[None]:
        try:
            yield
        except MergeConflictError as error:
            if branch.head.id != before:
                raise WrongTableError(f"a refusal moved {branch.name}") from error
            raise RefusedError(_reason(error)) from error

    def _is_serial(self, source: State, dest: State, end: State) -> bool:
        """Return whether the same operations, evaluated in some order, lead to these rows."""
        base, contents = self.family.base.table, end.table.contents()
        order = find_order(base, source.effects, dest.effects, Effect.evaluate, contents)
        if order is not None and self.random.randrange(_SAMPLE) == 0:
            self._replay([each.operation for each in order], contents)
        return order is not None

    def _replay(self, order: list[Operation], contents: Contents) -> None:
        """Let Spark run the operations in this order on one table."""
        family, features = self.family, self.family.features
        with tempfile.TemporaryDirectory(dir=self.campaign.folder) as folder:
            create(family.spark, folder, features)
            _, table = family.base_operations[0]
            for operation in [*(each for each, _ in family.base_operations), *order]:
                run(family.spark, folder, operation, table, features.partitioned)
                table = operation.apply(table)
            family.check_by_spark(folder, table)
        if table.contents() != contents:
            raise WrongTableError("the replay by Spark leads to different rows")
        self.campaign.counts["replays of the serial order by Spark"] += 1

    def _revert(self, end: State, dest: State) -> None:
        branch = self.family.branch(end.ref)
        try:
            with self._refusals(branch, end.ref):
                branch.revert(branch.name, parent_number=1, allow_empty=True)
        except RefusedError as refusal:
            self.campaign.reasons[f"revert: {refusal}"] += 1
            return
        self.family.check(branch.head.id, dest.table.contents())
        self.campaign.counts["reverts that gave the rows of dest back"] += 1

    def _read_elsewhere(self, end: State) -> None:
        family, folder = self.family, self.campaign.folder
        if read_elsewhere(family.repo, end.ref, family.features, end.table.contents(), folder):
            self.campaign.counts["results read by deltalake"] += 1

    def _continue(self, branch: Branch, end: State) -> None:
        """Let Spark go on in the merged table, then merge it back into source."""
        family, source = self.family, self.source[-1]
        after = family.step(branch, end, by_spark=True)
        self.campaign.counts["results that Spark read and changed"] += 1
        if self.random.randrange(3):
            return
        back = family.branch(source.ref)
        behind = State(source.ref, (), source.table)
        if self.random.random() < 0.5:
            behind = family.step(back, behind)
        try:
            # Both sides have source's effects; only one of the orders is that of the rows.
            self._merge(after.ref, back, family.base, after.effects, behind.effects)
        except RefusedError as refusal:
            self.campaign.reasons[f"second merge: {refusal}"] += 1
            return
        self.campaign.counts["second merges, in the other direction"] += 1

    def _pick(self) -> None:
        """Cherry-pick source's last commit, then merge source."""
        dest, source = self.dest[-1], self.source[-1]
        known = len(self.source[-2].effects)
        earlier = source.effects[:known]
        gone = frozenset(version for each in earlier for version in each.removed)
        picked = tuple(replace(each, spared=gone) for each in source.effects[known:])
        branch, base = self.family.branch(dest.ref), self.family.base
        try:
            end = self._merge(source.ref, branch, base, picked, dest.effects, picks=True)
            self.campaign.counts["cherry-picks"] += 1
            self._merge(source.ref, branch, base, earlier, end.effects)
            self.campaign.counts["merges after a cherry-pick"] += 1
        except RefusedError as refusal:
            self.campaign.reasons[f"cherry-pick: {refusal}"] += 1


def _described(
    base: Table, source: tuple[Effect, ...], dest: tuple[Effect, ...], found: Contents
) -> str:
    """Describe both sides, and the differences from the rows that are expected by effect."""
    removed = {version for each in (*source, *dest) for version in each.removed}
    added = {at: row for each in (*source, *dest) for at, row in each.added.items()}
    rows = {at: row for at, row in {**base.rows, **added}.items() if at not in removed}
    columns = dict(base.columns)
    for each in (*source, *dest):
        columns = dict(each.operation.apply(Table(columns, {})).columns)
    lines = [f"base: {[*base.rows]}"]
    for side, effects in (("source", source), ("dest", dest)):
        lines += [
            f"{side}: {each.operation}, removed {sorted(each.removed)}, added {[*each.added]}"
            for each in effects
        ]
    return "\n".join([*lines, compared(Table(columns, rows).contents(), found)])


_NAMES = (
    (re.compile(r".*cannot be merged: ", re.DOTALL), ""),
    (re.compile(r"\n.*|\. (source-wins|dest-wins|Change one side) .*", re.DOTALL), ""),
    (re.compile(r"(files|again|rows)[^:]*: .*"), r"\1"),
    (re.compile(r"'[^']*'"), "'...'"),
    (re.compile(r"the (rows of|partition|partitions) .*"), r"the \1 ..."),
    (re.compile(r"\d+ partitions"), "partitions"),
)


def _reason(error: MergeConflictError) -> str:
    text = str(error)
    for pattern, name in _NAMES:
        text = pattern.sub(name, text)
    return text.strip()


def rounds(options: Options, pairs_of_a_table: int = PAIRS) -> Iterator[str]:
    """Yield the names of the rounds: tables of each kind in turn, and pairs of their sides."""
    pairs = [f"{one}-{other}" for one, other in permutations(range(SIDES), 2)]
    pairs = [pairs[at * PAIRS // pairs_of_a_table] for at in range(pairs_of_a_table)]
    chosen = [each for each in FEATURES if not options.verbs or each in options.verbs]
    names = (
        f"{chosen[number % len(chosen)]}:{number // len(chosen)}:{pair}"
        for number in range(options.rounds)
        for pair in pairs
    )
    yield from (name for _, name in zip(range(options.rounds), names, strict=False))


def campaign(
    options: Options, spark: SparkSession, folder: Path, pairs_of_a_table: int = PAIRS
) -> tuple[Figures, Campaign]:
    """Merge pairs of sides of random tables."""
    made = Campaign(spark, options.seed, folder)
    return run_rounds(MODULE, options, rounds(options, pairs_of_a_table), made.run), made


def main() -> None:
    """Run a campaign, and print its figures."""
    options = parse_options("Merge random histories of a Delta table.", 600)
    with memory_folder() as folder, small_session(folder) as spark:
        figures, made = campaign(options, spark, folder)
    try:
        report("Merges of tables", options, figures, f"python -m {MODULE}")
    finally:
        _report_counts(made, options.table)


def _report_counts(made: Campaign, file: Path | None) -> None:
    """Print the checks and the reasons of refusals, and append them to a file if requested."""
    lines = []
    for title, counts in (("checks", made.counts), ("reasons of refusals", made.reasons)):
        lines += [f"| {title} | rounds |", "| --- | ---: |"]
        lines += [f"| {name} | {number} |" for name, number in sorted(counts.items())]
        lines.append("")
    text = "\n".join(lines)
    print(text)
    if file is not None:
        with file.open("a", encoding="utf-8") as out:
            out.write(f"\n{text}")


if __name__ == "__main__":
    main()
