"""Random operations on a table, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from campaigns.tables.operations import (
    ID,
    KEY,
    OWN_COLUMNS,
    PART,
    AddColumn,
    Condition,
    Delete,
    DropColumn,
    Insert,
    Merge,
    NewRow,
    Operation,
    Optimize,
    Overwrite,
    OverwritePartitions,
    RenameColumn,
    Table,
    Update,
)

PARTS = 3
IDS = 24
SHARED_COLUMN = "both"
"""The name of a column that both sides may add."""


@dataclass(frozen=True, slots=True)
class Features:
    """A name, and what the table uses."""

    name: str
    partitioned: bool = False
    vectors: bool = False
    mapping: bool = False
    row_tracking: bool = False
    change_feed: bool = False

    @property
    def properties(self) -> dict[str, str]:
        settings = {
            "delta.enableDeletionVectors": self.vectors,
            "delta.enableRowTracking": self.row_tracking,
            "delta.enableChangeDataFeed": self.change_feed,
        }
        found = {name: "true" for name, is_set in settings.items() if is_set}
        return {**found, "delta.columnMapping.mode": "name"} if self.mapping else found


@dataclass(slots=True)
class Choices:
    """Chooses operations. Numbers grow, so that all keys of rows are different."""

    random: Random
    features: Features
    number: int = 0

    def rows(self, most: int) -> tuple[NewRow, ...]:
        return tuple(
            NewRow(self.number * 100 + at, self.random.randrange(IDS), self.random.randrange(PARTS))
            for at in range(self.random.randint(1, most))
        )

    def _rows_by_id(self) -> tuple[NewRow, ...]:
        """Return rows with different ids, as a MERGE requires."""
        return tuple({each.id: each for each in self.rows(3)}.values())

    def where(self, table: Table) -> Condition:
        """Return a condition that usually holds for few rows."""
        choice, random = self.random.random(), self.random
        ids = sorted({int(str(row[ID])) for row in table.rows.values()}) or [0]
        if choice < 0.6 or (choice < 0.75 and not self.features.partitioned):
            return Condition(ID, tuple(random.sample(ids, min(len(ids), random.randint(1, 2)))))
        if choice < 0.75:
            return Condition(PART, (random.randrange(PARTS),))
        if choice < 0.9:
            modulus = random.randint(5, 11)
            return Condition(ID, (random.randrange(modulus),), modulus)
        keys = sorted(key for key, _ in table.rows) or [0]
        return Condition(KEY, (random.choice(keys),))

    def base(self) -> Insert:
        """Return the insert that fills a new table."""
        self.number += 1
        rows = tuple(NewRow(100 + at, at, at % PARTS) for at in range(18))
        return Insert(self.number, rows, files=6)

    def operation(self, table: Table) -> Operation:
        self.number += 1
        kinds = [*self._kinds(table)]
        (make,) = self.random.choices([kind for _, kind in kinds], [each for each, _ in kinds])
        return make()

    def _kinds(self, table: Table) -> Iterator[tuple[int, Callable[[], Operation]]]:
        random, number = self.random, self.number
        added = [each for each in table.columns if each not in OWN_COLUMNS]
        column = random.choice(added) if added and random.random() < 0.5 else None
        part = random.randrange(PARTS) if random.random() < 0.25 else None
        yield 4, lambda: Insert(number, self.rows(4), random.randint(1, 2))
        yield 5, lambda: Delete(number, self.where(table))
        yield 5, lambda: Update(number, self.where(table), part, column)
        yield 4, lambda: Merge(number, self._rows_by_id(), random.random() < 0.3)
        yield 1, lambda: Overwrite(number, self.rows(4), random.randint(1, 2))
        yield 1, lambda: self._replace(table)
        yield 1, lambda: Optimize(number)
        if self.features.partitioned:
            yield 1, lambda: OverwritePartitions(number, self.rows(3), 1)
        name = SHARED_COLUMN if random.random() < 0.4 else f"c{number}"
        if name not in table.columns and len(added) < 3:
            yield 1, lambda: AddColumn(number, name)
        if self.features.mapping and added:
            yield 1, lambda: RenameColumn(number, random.choice(added))
            yield 1, lambda: DropColumn(number, random.choice(added))

    def _replace(self, table: Table) -> Overwrite:
        """Return an overwrite of a partition's rows, or of some ids."""
        rows, ids = self.rows(3), Condition(ID, (self.random.randrange(IDS),))
        part = self.random.randrange(PARTS)
        if self.features.partitioned or self.random.random() < 0.5:
            inside = tuple(NewRow(each.key, each.id, part) for each in rows)
            return Overwrite(self.number, inside, 1, Condition(PART, (part,)))
        inside = tuple(NewRow(each.key, ids.values[0], each.part) for each in rows)
        return Overwrite(self.number, inside, 1, ids)
