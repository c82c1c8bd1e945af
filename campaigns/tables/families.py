"""A table in a repository, and branches on which Spark changed it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from campaigns.tables.choices import Choices, Features
from campaigns.tables.log_reader import Contents, WrongTableError
from campaigns.tables.operations import EMPTY, Operation, OverwritePartitions, Table, Write
from campaigns.tables.serial import Effect
from campaigns.tables.trees import PATH, compared, read_table
from sparklake import Branch, Repository
from sparklake.errors import NoChangesError
from sparklake.testing.lakes import memory_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OVERWRITES = "spark.sql.sources.partitionOverwriteMode"
SIDES = 4
MOST_STEPS = 3


def run(spark: SparkSession, place: str, operation: Operation, table: Table, parts: bool) -> None:
    """Run an operation by Spark on the table at a place."""
    if isinstance(operation, OverwritePartitions):
        spark.conf.set(_OVERWRITES, "dynamic")
    try:
        statement = operation.statement(table, parts)
        spark.sql(statement.replace("{table}", f"delta.`{place}`")).collect()
    finally:
        spark.conf.unset(_OVERWRITES)


def create(spark: SparkSession, place: str, features: Features) -> None:
    """Create an empty table at a place."""
    columns = "k BIGINT, id BIGINT, p INT, v BIGINT"
    parts = " PARTITIONED BY (p)" if features.partitioned else ""
    settings = ", ".join(f"'{name}' = '{value}'" for name, value in features.properties.items())
    properties = f" TBLPROPERTIES ({settings})" if settings else ""
    spark.sql(f"CREATE TABLE delta.`{place}` ({columns}) USING delta{parts}{properties}")


@dataclass(frozen=True, slots=True)
class State:
    """A commit of a branch: the effects since base, and the table."""

    ref: str
    effects: tuple[Effect, ...]
    table: Table


@dataclass(slots=True)
class Family:
    """A table on main, and some sides, each a list of states of a branch."""

    spark: SparkSession
    repo: Repository
    choices: Choices
    base: State = field(init=False)
    base_operations: list[tuple[Operation, Table]] = field(default_factory=list)
    sides: list[list[State]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @staticmethod
    def grow(spark: SparkSession, features: Features, seed: int, folder: Path) -> Family:
        """Create a table, and change it on several branches."""
        repo = memory_lake().create_repository("tables", str(folder / "namespace"))
        choices = Choices(Random(f"{features.name} {seed}"), features)
        family = Family(spark, repo, choices)
        family._create()
        for number in range(SIDES):
            branch = repo.create_branch(f"side-{number}", "main")
            states = [family.base]
            steps = choices.random.randint(1, MOST_STEPS)
            while len(states) <= steps:
                state = family.step(branch, states[-1])
                if state.ref != states[-1].ref:
                    states.append(state)
            family.sides.append(states)
        return family

    @property
    def features(self) -> Features:
        return self.choices.features

    def _create(self) -> None:
        features, main = self.features, self.repo.branch("main")
        first = self.choices.base()
        self._write(main, replace(first.write(EMPTY), options=features.properties))
        main.commit("created the table")
        table = first.apply(EMPTY)
        self.base_operations = [(first, EMPTY)]
        state = State(main.head.id, (), table)
        for _ in range(self.choices.random.randint(0, 2)):
            state = self.step(main, state)
        self.base_operations += [(each.operation, table) for each in state.effects]
        self.base = State(state.ref, (), state.table)
        self.check(self.base.ref, self.base.table.contents())

    def step(self, branch: Branch, state: State, by_spark: bool = False) -> State:
        """Run one or two random operations on a branch in an edit, and commit them.

        With `by_spark`, Spark first reads the table as it was.
        """
        table, effects, random = state.table, list(state.effects), self.choices.random
        operation, count = self.choices.operation(table), random.choice((1, 1, 2))
        write = operation.write(table)
        if write is not None and count == 1 and not by_spark and random.random() < 0.5:
            self._write(branch, write)
            effects.append(Effect.of(operation, table))
            table = operation.apply(table)
        else:
            with branch.edit_delta(PATH) as place:
                if by_spark:
                    self.check_by_spark(place, table)
                for number in range(count):
                    operation = self.choices.operation(table) if number else operation
                    run(self.spark, place, operation, table, self.features.partitioned)
                    effects.append(Effect.of(operation, table))
                    table = operation.apply(table)
        try:
            branch.commit(", ".join(type(each.operation).__name__ for each in effects))
        except NoChangesError:
            return State(state.ref, state.effects, table)
        ref = branch.head.id
        self.check(ref, table.contents())
        return State(ref, tuple(effects), table)

    def _write(self, branch: Branch, write: Write) -> None:
        """Write to the table by `branch.write`."""
        parts = ["p"] if self.features.partitioned else []
        options: dict[str, Any] = {**write.options}
        rows = self.spark.sql(write.query)
        branch.write(rows, PATH, format="delta", mode=write.mode, partition_by=parts, **options)

    def branch(self, ref: str) -> Branch:
        return self.repo.create_branch(f"work-{next(self.numbers)}", ref)

    def check(self, ref: str, expected: Contents) -> None:
        """Read the table of a commit, and compare its rows."""
        found = read_table(self.repo, ref)
        if found != expected:
            raise WrongTableError(f"the rows of {ref} differ:\n{compared(expected, found)}")

    def check_by_spark(self, place: str, table: Table) -> None:
        rows = self.spark.read.format("delta").load(place).collect()
        found = sorted((tuple(sorted(each.asDict().items())) for each in rows), key=repr)
        if found != table.contents():
            raise WrongTableError(f"Spark's rows differ:\n{compared(table.contents(), found)}")
