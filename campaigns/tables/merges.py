"""Random merges of table histories, each in two file layouts.

    python -m campaigns.tables.merges --rounds 600 --seed 1 --verbs parquet "delta vectors"

Iceberg's tables need the environment of `make test-iceberg`. Each round merges two sides. Without a
key, the rows must be those of a serial order of both sides' operations, or the merge is refused
with a reason of a closed list. With a rule `rows(id)`, the rows, or the keys in conflict, must be
those of a three-way merge of dicts. Both layouts must lead to the same rows.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.tables.choices import Choices, Layout
from campaigns.tables.disjoint import are_disjoint, share_files
from campaigns.tables.families import Family, State
from campaigns.tables.keyed import RowMerge
from campaigns.tables.log_reader import WrongTableError
from campaigns.tables.operations import ChangeFormat, Contents, Restore, Table
from campaigns.tables.ports import KINDS, SPARK_4_1
from campaigns.tables.readers import PATH, compared, data_files, read_elsewhere
from campaigns.tables.reasons import FORMAT, reason_of
from campaigns.tables.serial import Effect, find_order
from campaigns.tables.session import small_session
from sparklake import Branch, MergeConflictError
from sparklake.testing.folders import memory_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "campaigns.tables.merges"
SIDES = 6
LAYOUTS = "ab"
FILES, KEY = "files", "key"
PAIRS = [f"{one}-{other}" for one, other in permutations(range(SIDES), 2)]

MERGED, BY_EFFECT = "merged", "merged, predicates not evaluated again"
CONFLICTS, REFUSED = "conflicts, as expected", "refused"
DISJOINT, IN_ONE_FILE = "disjoint", "different rows of one file"
_SAMPLE = 6
_PAIRS_OF_A_KEY = 3
"""Every third pair is also merged by key, which needs Spark."""


class RefusedError(Exception):
    """A conflict, with its reason."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a merge led to: rows, keys in conflict, or a reason."""

    name: str
    contents: Contents | None = None
    keys: frozenset[Any] = frozenset()
    reason: str = ""


@dataclass(slots=True)
class Campaign:
    seed: int
    folder: Path
    spark: SparkSession | None = None
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[Cell] = field(default_factory=Counter)
    disjoint: Counter[Cell] = field(default_factory=Counter)
    _name: str = ""
    _families: dict[str, Family] = field(default_factory=dict)
    _outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def run(self, name: str) -> Cell:
        """Run a round: a pair of sides under a rule, such as `delta plain:3:0-2:key:b`."""
        kind, number, pair, rule, layout = name.split(":")
        self._grow(kind, int(number))
        key = f"{pair}:{rule}"
        outcome = self._outcome(kind, key, layout)
        for other in LAYOUTS[: LAYOUTS.index(layout)]:
            _compare(self._outcome(kind, key, other), outcome, rule)
        return f"{kind}, by {rule}", outcome.name

    def _outcome(self, kind: str, key: str, layout: str) -> Outcome:
        if (key, layout) not in self._outcomes:
            pair, rule = key.split(":")
            family = self._families[layout]
            random = Random(f"{self._name} {pair}")
            sides = [family.sides[int(each)] for each in pair.split("-")]
            cuts = [random.randint(1, len(each) - 1) for each in sides]
            source, dest = (each[: at + 1] for each, at in zip(sides, cuts, strict=True))
            round_ = Pair(self, family, source, dest, random, f"{kind}, by {rule}")
            self._outcomes[key, layout] = round_.by_key() if rule == KEY else round_.by_files()
        return self._outcomes[key, layout]

    def _grow(self, name: str, number: int) -> None:
        seed = f"{self.seed} {name} {number}"
        if self._name == seed:
            if len(self._families) < len(LAYOUTS):
                raise WrongTableError("the history of this table failed, see its first round")
            return
        self._name = seed
        self._families.clear()
        self._outcomes.clear()
        kind, random = KINDS[name], Random(seed)
        choices = Choices(random, kind.operations, kind.formats, kind.has_unique_ids)
        history = choices.history(SIDES)
        is_partitioned = random.random() < 0.5
        for layout in (Layout("a", is_partitioned, seed), Layout("b", not is_partitioned, seed)):
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            self._families[layout.name] = Family.grow(kind, history, layout, folder, self.spark)


def _compare(one: Outcome, other: Outcome, rule: str) -> None:
    """Compare the outcomes in two layouts of one history.

    A side that only compacts files has changes beside another format, and in other layouts none.
    """
    refused = [each for each in (one, other) if each.name == REFUSED]
    is_by_files = rule == FILES or any(each.reason.startswith(FORMAT) for each in refused)
    if refused and (is_by_files or len(refused) == 2):
        return
    if (one.contents, one.keys) != (other.contents, other.keys) or REFUSED in (
        one.name,
        other.name,
    ):
        raise WrongTableError(f"the layouts differ: {_said(one)}, and {_said(other)}")


def _said(outcome: Outcome) -> str:
    return " ".join(map(str, filter(None, (outcome.name, outcome.reason, [*outcome.keys]))))


@dataclass(slots=True)
class Pair:
    """The states of two sides since their common base, to merge in one direction."""

    campaign: Campaign
    family: Family
    source: Sequence[State]
    dest: Sequence[State]
    random: Random
    row: str

    @property
    def tables(self) -> tuple[Table, Table, Table]:
        return self.family.base.table, self.source[-1].table, self.dest[-1].table

    def by_files(self) -> Outcome:
        """Merge, revert, continue and merge again; pick a commit."""
        source, dest = self.source[-1], self.dest[-1]
        branch = self.family.branch(dest.ref)
        is_sample = self.random.randrange(_SAMPLE) == 0
        if is_sample:
            self._pick()
        try:
            end = self._merge(source.ref, branch, source.effects, dest.effects)
        except RefusedError as refusal:
            return self._refused(refusal)
        self._count_disjoint()
        contents = end.table.contents()
        order = find_order(
            self.family.base.table, source.effects, dest.effects, Effect.evaluate, contents
        )
        if is_sample:
            self._after(branch, end, dest)
            self._merge_again(end)
        return Outcome(MERGED if order else BY_EFFECT, self.family.contents(contents))

    def by_key(self) -> Outcome:
        """Merge with a rule of rows."""
        dest, random = self.dest[-1], self.random
        columns, winner = random.random() < 0.4, random.choice([None, None, "source", "dest"])
        key = random.choice(("id", "id", "ID"))
        options = [key, *["columns=true"] * columns, *[f"then={winner}-wins"] * bool(winner)]
        rules = {f"{PATH}/": f"rows({', '.join(options)})"}
        expected = RowMerge.of_tables(*self.tables, columns=columns, winner=winner)
        branch = self.family.branch(dest.ref)
        try:
            keys = self._merge_rows(branch, rules)
        except RefusedError as refusal:
            return self._refused(refusal)
        if expected is None:
            raise WrongTableError("merged, though keys or columns of the sides disagree")
        table, conflicts = expected
        if keys != conflicts:
            raise WrongTableError(f"conflicts {sorted(keys)}, not {sorted(conflicts)}")
        self._count_disjoint()
        if conflicts:
            return Outcome(CONFLICTS, keys=keys)
        ref = branch.head.id
        self._check(ref, table)
        if random.randrange(_SAMPLE) == 0:
            self._after(branch, State(ref, (), table), dest)
        return Outcome(MERGED, self.family.contents(table.contents()))

    def _merge_rows(self, branch: Branch, rules: dict[str, str]) -> frozenset[Any]:
        """Return the keys in conflict."""
        before, source = branch.head.id, self.source[-1].ref
        try:
            self.family.repo.merge(source, branch.name, rules=rules, allow_empty=True)
        except MergeConflictError as error:
            _require_unmoved(branch, before, error)
            if error.conflict_rows is None:
                raise RefusedError(str(error)) from error
            rows = error.conflict_rows.collect()
            return frozenset(next(iter(json.loads(row["key"]).values())) for row in rows)
        return frozenset()

    def _refused(self, refusal: RefusedError) -> Outcome:
        reason = reason_of(str(refusal))
        self.campaign.reasons[self.row, reason] += 1
        self._count_disjoint(reason)
        return Outcome(REFUSED, reason=f"{reason}: {refusal}")

    def _count_disjoint(self, reason: str = "") -> None:
        """Count a merge of disjoint changes, or its refusal for a reason."""
        if not are_disjoint(*self.tables):
            return
        kind = DISJOINT
        if self.row.endswith(f"by {FILES}"):
            refs = self.family.base.ref, self.source[-1].ref, self.dest[-1].ref
            if share_files(*(data_files(self.family.repo, ref) for ref in refs)):
                kind = IN_ONE_FILE
        counts = self.campaign.disjoint
        counts[self.row, kind] += 1
        if reason:
            counts[self.row, f"{kind}, {REFUSED}"] += 1
            if kind == DISJOINT:
                self.campaign.reasons[f"disjoint changes of {self.row}", reason] += 1

    def _check(self, ref: str, table: Table) -> None:
        self.family.check(ref, table)
        if bad := [row for row in table.rows.values() if row["id"] in table.checks]:
            raise WrongTableError(f"{ref} has rows that its constraints exclude: {bad}")

    def _merge(
        self,
        ref: str,
        branch: Branch,
        source: tuple[Effect, ...],
        dest: tuple[Effect, ...],
        *,
        picks: bool = False,
    ) -> State:
        """Merge or cherry-pick a ref, and check the rows."""
        before, family = branch.head.id, self.family
        try:
            if picks:
                branch.cherry_pick(ref, allow_empty=True)
            else:
                family.repo.merge(ref, branch.name, allow_empty=True)
        except MergeConflictError as error:
            _require_unmoved(branch, before, error)
            raise RefusedError(str(error)) from error
        head = branch.head.id
        contents, _ = family.read(head)
        for step in (Effect.repeat, Effect.delete_again, Effect.evaluate):
            end = self._find(source, dest, step, contents)
            if end is not None:
                self._check(head, end[0])
                return State(head, tuple(end[1]), end[0])
        raise WrongTableError(
            f"no serial order leads to the rows of {head}:\n"
            f"{_described(family.base.table, source, dest, contents)}"
        )

    def _find(
        self, source: Sequence[Effect], dest: Sequence[Effect], step: Any, contents: Contents
    ) -> tuple[Table, list[Effect]] | None:
        base, family = self.family.base.table, self.family
        return find_order(base, source, dest, step, contents, family.contents)

    def _after(self, branch: Branch, end: State, dest: State) -> None:
        """Revert, let other readers read, and let the writer go on."""
        family, counts = self.family, self.campaign.counts
        undo = family.branch(end.ref)
        try:
            undo.revert(undo.name, parent_number=1, allow_empty=True)
        except MergeConflictError as error:
            self.campaign.reasons["reverts", reason_of(str(error))] += 1
        else:
            contents, _ = family.read(undo.head.id)
            expected = family.contents(dest.table.contents())
            if contents != expected:
                raise WrongTableError(f"a revert:\n{compared(expected, contents)}")
            counts["reverts that gave the rows of dest back"] += 1
        for reader in read_elsewhere(family.repo, end.ref, self.campaign.spark, end.table):
            counts[f"results read by {reader}"] += 1
        if not end.table.format:
            family.step(branch, end, [self._choices(end.table).change(end.table)])
            counts["results that the writer changed"] += 1

    def _choices(self, table: Table) -> Choices:
        kind = self.family.kind
        choices = Choices(
            self.random, kind.operations - {Restore, ChangeFormat}, kind.formats, True
        )
        choices.number, choices.base = 1000 + self.random.randrange(1000), table
        return choices

    def _merge_again(self, end: State) -> None:
        """Merge the result back into source, possibly after more commits there."""
        family, source = self.family, self.source[-1]
        back = family.branch(source.ref)
        behind = State(source.ref, source.effects, source.table)
        if self.random.random() < 0.5 and not source.table.format:
            change = self._choices(source.table).change(source.table)
            behind = family.step(back, replace(behind, effects=()), [change])
            behind = replace(behind, effects=(*source.effects, *behind.effects))
        # Both sides have source's effects, in the order of the merge.
        own = behind.effects[len(source.effects) :]
        try:
            self._merge(end.ref, back, end.effects, own)
        except RefusedError as refusal:
            self.campaign.reasons["second merges", reason_of(str(refusal))] += 1
            return
        self.campaign.counts["second merges, in the other direction"] += 1

    def _pick(self) -> None:
        """Cherry-pick source's last commit, then merge source."""
        dest, source = self.dest[-1], self.source[-1]
        start = len(self.source[-2].effects)
        earlier = source.effects[:start]
        removals = frozenset(version for each in earlier for version in each.removed)
        picked = tuple(replace(each, spared=removals) for each in source.effects[start:])
        branch = self.family.branch(dest.ref)
        try:
            end = self._merge(source.ref, branch, picked, dest.effects, picks=True)
            self.campaign.counts["cherry-picks"] += 1
            self._merge(source.ref, branch, earlier, end.effects)
            self.campaign.counts["merges after a cherry-pick"] += 1
        except RefusedError as refusal:
            self.campaign.reasons["cherry-picks", reason_of(str(refusal))] += 1


def _require_unmoved(branch: Branch, before: str, error: Exception) -> None:
    if branch.head.id != before:
        raise WrongTableError(f"a refusal moved {branch.name}") from error


def _described(
    base: Table, source: Sequence[Effect], dest: Sequence[Effect], contents: Contents
) -> str:
    """Describe both sides, and the differences from the rows expected by effect."""
    both = (*source, *dest)
    removed = {version for each in both for version in each.removed}
    added = {at: row for each in both for at, row in each.added.items()}
    table = replace(base, rows={})
    for each in both:
        table = each.operation.apply(replace(table, rows={}))
    rows = {at: row for at, row in {**base.rows, **added}.items() if at not in removed}
    lines = [
        f"{side}: {each.operation}"
        for side, effects in (("source", source), ("dest", dest))
        for each in effects
    ]
    return "\n".join([*lines, compared(replace(table, rows=rows).contents(), contents)])


def rounds(options: Options, pairs: Sequence[str] = PAIRS) -> Iterator[str]:
    """Yield round names: alternating kinds of tables, and pairs of their sides."""
    names = options.verbs or [each for each in KINDS if each not in SPARK_4_1]
    kinds = [each for each in KINDS if each in names]
    rounds_of_tables = (
        f"{kind}:{number // len(kinds)}:{pair}:{rule}:{layout}"
        for number in range(options.rounds)
        for kind in [kinds[number % len(kinds)]]
        for at, pair in enumerate(pairs)
        for rule in (FILES, KEY)
        for layout in LAYOUTS
        if rule == FILES or not (KINDS[kind].is_python or at % _PAIRS_OF_A_KEY)
    )
    yield from itertools.islice(rounds_of_tables, options.rounds)


def campaign(
    options: Options, folder: Path, spark: SparkSession | None, pairs: Sequence[str] = PAIRS
) -> tuple[Figures, Campaign]:
    """Merge pairs of sides in random tables."""
    state = Campaign(options.seed, folder, spark)
    return run_rounds(MODULE, options, rounds(options, pairs), state.run), state


def main() -> None:
    """Run a campaign, and print its figures."""
    options = parse_options("Merge random histories of tables.", 600)
    with ExitStack() as stack:
        folder = stack.enter_context(memory_folder())
        needs_spark = not all(KINDS[each].is_python for each in options.verbs or KINDS)
        spark = stack.enter_context(small_session(folder)) if needs_spark else None
        figures, state = campaign(options, folder, spark)
    try:
        report("Merges of tables", options, figures, f"python -m {MODULE}")
    finally:
        _report(state, options.table)


def _report(state: Campaign, file: Path | None) -> None:
    """Print the checks and the refusals, and append them to a file if requested."""
    lines = ["", "| checks | rounds |", "| --- | ---: |"]
    lines += [f"| {name} | {number} |" for name, number in sorted(state.counts.items())]
    lines += ["", "| tables | reason of refusal | rounds |", "| --- | --- | ---: |"]
    lines += [
        f"| {row} | {name} | {count} |" for (row, name), count in sorted(state.reasons.items())
    ]
    kinds = [f"{each}{end}" for each in (DISJOINT, IN_ONE_FILE) for end in ("", f", {REFUSED}")]
    lines += ["", f"| tables | {' | '.join(kinds)} | refusals of disjoint changes |"]
    lines += [f"| --- |{' ---: |' * (len(kinds) + 1)}"]
    for row in sorted({row for row, _ in state.disjoint}):
        numbers = [state.disjoint[row, each] for each in kinds]
        rate = f"{numbers[1] / max(numbers[0], 1):.1%}"
        lines.append(f"| {row} | {' | '.join(map(str, numbers))} | {rate} |")
    text = "\n".join([*lines, ""])
    print(text)
    if file is not None:
        with file.open("a", encoding="utf-8") as out:
            out.write(text)


if __name__ == "__main__":
    main()
