"""Random table histories and file layouts, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from campaigns.tables.operations import (
    EMPTY,
    FIELD,
    ID,
    NUMBER,
    OWN_COLUMNS,
    PART,
    TEXT,
    WRITER,
    AddCheck,
    AddColumn,
    Change,
    ChangeFormat,
    Condition,
    Delete,
    DropColumn,
    Insert,
    Operation,
    Overwrite,
    RenameColumn,
    Restore,
    Row,
    SetProperty,
    Table,
    Target,
    Update,
    Upsert,
    Value,
    Widen,
)

PARTS = 3
IDS = 36
BASE_ROWS = 18
MOST_STEPS = 2
SHARED_COLUMNS = ("both", "n.both")
"""Names of columns that both sides may add."""

ROWS: frozenset[type[Operation]] = frozenset({Insert, Delete, Update, Upsert, Overwrite})

Step = Sequence[Change]
"""The changes of a commit."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How files lie: two layouts of one history must lead to the same merges."""

    name: str
    is_partitioned: bool
    seed: str

    def random(self, *about: object) -> Random:
        return Random(f"{self.seed} {self.name} {about}")

    def target(self, table: Table, table_format: str, number: int) -> Target:
        random = self.random(number)
        files, is_upper = random.choice((1, 1, 2, 5, 20)), random.random() < 0.1
        return Target(table, table_format, self.is_partitioned, files, is_upper)

    def compacts(self, number: int) -> bool:
        return self.random("compacts", number).random() < 0.12


@dataclass(slots=True)
class History:
    """What happened to a table on main, and on the sides since then."""

    main: list[Step]
    base: Table
    sides: list[list[Step]]


@dataclass(slots=True)
class Choices:
    """A random choice of operations for a kind of table.

    Ids are unique, except on the sides of every tenth table, where insertions ignore those there.
    """

    random: Random
    kinds: frozenset[type[Operation]]
    formats: Sequence[str]
    has_unique_ids: bool = False
    is_unique: bool = field(init=False)
    number: int = 0
    base: Table = EMPTY

    def __post_init__(self) -> None:
        self.is_unique = True

    def history(self, sides: int) -> History:
        self.number = 1
        rows = tuple(self._row(EMPTY, at, at % PARTS) for at in range(BASE_ROWS))
        main: list[Step] = [[Change.of(Insert(1, rows), EMPTY)]]
        for _ in range(self.random.randint(0, 2)):
            main.append([self.change(main[-1][-1].after)])
        self.base = main[-1][-1].after
        self.is_unique = self.has_unique_ids or self.random.random() < 0.9
        history = History(main, self.base, [])
        for _ in range(sides):
            history.sides.append(self._side(history))
        return history

    def _side(self, history: History) -> list[Step]:
        random, table = self.random, history.base
        steps: list[Step] = []
        if history.sides and random.random() < 0.15:
            step = []
            for each in random.choice(history.sides)[0]:
                step.append(Change.of(each.operation, table))
                table = step[-1].after
            steps.append(step)
        count = random.randint(1, MOST_STEPS)
        while len(steps) < count and not table.format:
            step = []
            for _ in range(random.choice((1, 1, 2))):
                if not table.format:
                    step.append(self.change(table))
                    table = step[-1].after
            steps.append(step)
        return steps

    def change(self, table: Table) -> Change:
        return Change.of(self._operation(table), table)

    def _operation(self, table: Table) -> Operation:
        self.number += 1
        kinds = [*self._kinds(table)]
        (make,) = self.random.choices([kind for _, kind in kinds], [each for each, _ in kinds])
        return make()

    def _kinds(self, table: Table) -> Iterator[tuple[float, Callable[[], Operation]]]:
        random, number = self.random, self.number
        changes: dict[type[Operation], tuple[float, Callable[[], Operation]]] = {
            Insert: (5, lambda: Insert(number, self._rows(table, 4))),
            Delete: (4, lambda: Delete(number, self._where(table))),
            Update: (5, lambda: Update(number, self._where(table), self._values(table))),
            Upsert: (4, lambda: self._upsert(table)),
            Overwrite: (2.5, lambda: self._overwrite(table)),
        }
        yield from (each for kind, each in changes.items() if kind in self.kinds)
        yield from (each for each in self._settings(table) if self.base is not EMPTY)
        is_as_base = self.base is not EMPTY and table.columns == self.base.columns
        if is_as_base and table.properties == self.base.properties and not table.checks:
            rows = self.base.rows
            if Restore in self.kinds:
                yield 0.5, lambda: Restore(number, rows, random.random() < 0.4)
            if ChangeFormat in self.kinds:
                yield 0.6, lambda: ChangeFormat(number, random.choice(self.formats))

    def _settings(self, table: Table) -> Iterator[tuple[float, Callable[[], Operation]]]:
        """Yield changes of the schema and of other declarations."""
        random, number, kinds = self.random, self.number, self.kinds
        new = [*SHARED_COLUMNS] * 2 + [f"c{number}", f"n.c{number}"]
        new = [each for each in new if each not in table.columns]
        if AddColumn in kinds and len(table.columns) < len(OWN_COLUMNS) + 3:
            yield 1, lambda: AddColumn(number, random.choice(new))
        if RenameColumn in kinds and table.columns.get(TEXT) == TEXT:
            yield 0.4, lambda: RenameColumn(number, TEXT)
            yield 0.3, lambda: DropColumn(number, TEXT)
        if Widen in kinds and not table.is_wide:
            yield 0.4, lambda: Widen(number)
        if SetProperty in kinds:
            yield 0.6, lambda: SetProperty(number, f"campaign.{random.choice('abcdef')}")
        free = self._free(table)
        if AddCheck in kinds and free:
            yield 0.5, lambda: AddCheck(number, random.choice(free))

    def _free(self, table: Table, others: Sequence[Row] | None = None) -> list[int]:
        """Return the free ids for a new row. `others` are the rows that stay."""
        rows = table.rows.values() if others is None else others
        used = {row[ID] for row in rows} if self.is_unique or others is None else set()
        return [each for each in range(IDS) if each not in used | table.checks]

    def _row(self, table: Table, row_id: int, part: int) -> Row:
        more: dict[str, Value] = {
            each: f"{each} of {row_id} by {self.number}"
            for each in table.columns
            if each not in OWN_COLUMNS
        }
        own: dict[str, Value] = {
            ID: row_id,
            PART: part,
            WRITER: self.number,
            NUMBER: self._value(table),
            TEXT: self.random.choice("xyz"),
            FIELD: row_id,
        }
        return {**own, **more}

    def _value(self, table: Table) -> int:
        values = [1, 2, 3, 5_000_000_000]
        return self.random.choice(values if table.is_wide else values[:3])

    def _rows(
        self, table: Table, most: int, others: Sequence[Row] | None = None, part: int | None = None
    ) -> tuple[Row, ...]:
        """Return new rows with different ids; at least one."""
        rows = [*table.rows.values()] if others is None else others
        ids = self._free(table, rows) or [IDS + self.number]
        sample = self.random.sample(ids, min(len(ids), self.random.randint(1, most)))
        parts = (self.random.randrange(PARTS) if part is None else part for _ in sample)
        return tuple(self._row(table, *each) for each in zip(sample, parts, strict=True))

    def _upsert(self, table: Table) -> Upsert:
        ids = [each for each in range(IDS) if each not in table.checks]
        sample = self.random.sample(ids, self.random.randint(1, 4))
        rows = tuple(self._row(table, each, each % PARTS) for each in sample)
        return Upsert(self.number, rows, self.random.random() < 0.25)

    def _overwrite(self, table: Table) -> Overwrite:
        """Return an overwrite of the table, a partition or other rows."""
        choice, random = self.random.random(), self.random
        if choice < 0.3:
            return Overwrite(self.number, self._rows(table, 6, []))
        if choice < 0.8:
            part = random.randrange(PARTS)
            where = Condition(PART, (part,))
            others = [row for row in table.rows.values() if not where.holds(row)]
            return Overwrite(self.number, self._rows(table, 4, others, part), where)
        ids = [each for each in range(IDS) if each not in table.checks]
        row_id = random.choice(ids)
        rows = (self._row(table, row_id, random.randrange(PARTS)),)
        return Overwrite(self.number, rows, Condition(ID, (row_id,)))

    def _where(self, table: Table) -> Condition:
        """Return a condition with few matching rows in most cases."""
        choice, random = self.random.random(), self.random
        if choice < 0.7:
            ids = sorted({int(str(row[ID])) for row in table.rows.values()}) or [0]
            return Condition(ID, tuple(random.sample(ids, min(len(ids), random.randint(1, 3)))))
        if choice < 0.82:
            return Condition(PART, (random.randrange(PARTS),))
        modulus = random.randint(6, 12)
        return Condition(ID, (random.randrange(modulus),), modulus)

    def _values(self, table: Table) -> dict[str, Value]:
        random = self.random
        values: dict[str, Value] = {WRITER: self.number}
        added = [each for each in table.columns if each not in OWN_COLUMNS]
        if random.random() < 0.2:
            values[PART] = random.randrange(PARTS)
        if random.random() < 0.4:
            values[NUMBER] = self._value(table)
        if random.random() < 0.4:
            values[TEXT] = random.choice("xyz")
        if added and random.random() < 0.5:
            values[random.choice(added)] = f"set by {self.number}"
        if random.random() < 0.3:
            del values[WRITER]
            values.setdefault(NUMBER, 7)
        return values
