"""One table history on branches, in one file layout."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from campaigns.tables.choices import History, Layout, Step
from campaigns.tables.log_reader import WrongTableError
from campaigns.tables.operations import PARQUET, Contents, Table
from campaigns.tables.ports import Kind, Port, open_port
from campaigns.tables.readers import compared, read_table
from campaigns.tables.serial import Effect
from sparklake import Branch, Engine, Lake, Repository
from sparklake.engine.choice import Runners
from sparklake.testing.lakes import TESTER
from sparklake.testing.memory import MemoryRefStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class State:
    """A commit of a branch: the effects since base, and the table."""

    ref: str
    effects: tuple[Effect, ...]
    table: Table


@dataclass(slots=True)
class Family:
    """A table on main, and sides: lists of branch states."""

    kind: Kind
    layout: Layout
    repo: Repository
    port: Port
    base: State = field(init=False)
    sides: list[list[State]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @staticmethod
    def grow(
        kind: Kind, history: History, layout: Layout, folder: Path, spark: SparkSession | None
    ) -> Family:
        """Create a table, and change it on several branches."""
        lake = Lake(MemoryRefStore(), Runners(Engine.LOCAL, spark), TESTER)
        repo = lake.create_repository("tables", str(folder / "lake"))
        family = Family(kind, layout, repo, open_port(kind, repo, lake, spark, folder / "t"))
        family._create(history)
        for number, steps in enumerate(history.sides):
            branch = repo.create_branch(f"side-{number}", "main")
            states = [family.base]
            for step in steps:
                states.append(family.step(branch, states[-1], step))
            family.sides.append(states)
        return family

    def _create(self, history: History) -> None:
        main = self.repo.branch("main")
        first, *steps = history.main
        self.port.create(main, first[0], self.layout)
        main.commit("created the table")
        state = State(main.head.id, (), first[0].after)
        for step in steps:
            state = self.step(main, state, step)
        self.base = State(state.ref, (), state.table)
        self.check(state.ref, state.table)

    def step(self, branch: Branch, state: State, step: Step) -> State:
        """Run changes on a branch, commit them and read the table."""
        self.port.run(branch, step, self.layout, self.base.ref if self.sides_exist else "")
        names = ", ".join(type(each.operation).__name__ for each in step)
        ref = branch.commit(names, allow_empty=True).id
        table = step[-1].after
        self.check(ref, table)
        return State(ref, (*state.effects, *self.effects(step)), table)

    @property
    def sides_exist(self) -> bool:
        return hasattr(self, "base")

    def effects(self, step: Step) -> Sequence[Effect]:
        targets = (
            self.layout.target(each.before, self.kind.format, each.operation.number)
            for each in step
        )
        return [Effect.of(each, target) for each, target in zip(step, targets, strict=True)]

    def branch(self, ref: str) -> Branch:
        return self.repo.create_branch(f"work-{next(self.numbers)}", ref)

    def contents(self, contents: Contents) -> Contents:
        """Return rows without all-null columns, for a folder of files."""
        if self.kind.format != PARQUET:
            return contents
        names = {name for row in contents for name, value in row if value is not None}
        return [tuple(each for each in row if each[0] in names) for row in contents]

    def read(self, ref: str) -> tuple[Contents, Mapping[str, str]]:
        contents, properties = read_table(self.repo, ref)
        return self.contents(contents), properties

    def check(self, ref: str, table: Table) -> None:
        """Read the table of a commit, and compare its rows and properties."""
        expected = self.contents(table.contents())
        contents, properties = self.read(ref)
        if contents != expected:
            raise WrongTableError(f"the rows of {ref} differ:\n{compared(expected, contents)}")
        if not table.format and properties != table.properties:
            raise WrongTableError(f"{ref} has the properties {properties}")
