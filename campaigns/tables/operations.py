"""Operations on a Delta table: their SQL, and their meaning for rows in plain Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

Value: TypeAlias = int | str | None
Row: TypeAlias = Mapping[str, Value]
"""Values by the first name of their column. A missing column is null."""

Region: TypeAlias = Callable[[Row], bool]

Version: TypeAlias = tuple[int, int]
"""The identity of a row version: the key of the row, and the operation that wrote it."""

KEY, ID, PART, WRITER = "k", "id", "p", "v"
OWN_COLUMNS = (KEY, ID, PART, WRITER)
_TYPES = {KEY: "BIGINT", ID: "BIGINT", PART: "INT", WRITER: "BIGINT"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its present column names by their first names, and its row versions."""

    columns: Mapping[str, str]
    rows: Mapping[Version, Row]

    def contents(self) -> list[tuple[tuple[str, Value], ...]]:
        """Return the rows with their present names, in order."""
        pairs = (
            tuple(sorted((name, row.get(first)) for first, name in self.columns.items()))
            for row in self.rows.values()
        )
        return sorted(pairs, key=repr)


EMPTY = Table({each: each for each in OWN_COLUMNS}, {})


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate: a column, reduced modulo a number if given, is one of the values."""

    column: str
    values: tuple[int, ...]
    modulus: int | None = None

    def holds(self, row: Row) -> bool:
        value = row.get(self.column)
        if not isinstance(value, int):
            return False
        return (value if self.modulus is None else value % self.modulus) in self.values

    def sql(self, alias: str = "") -> str:
        column = f"{alias}{self.column}"
        column = column if self.modulus is None else f"{column} % {self.modulus}"
        if len(self.values) == 1:
            return f"{column} = {self.values[0]}"
        return f"{column} IN ({', '.join(map(str, self.values))})"


@dataclass(frozen=True, slots=True)
class NewRow:
    key: int
    id: int
    part: int


@dataclass(frozen=True, slots=True)
class Write:
    """The query, mode and options of a write of a DataFrame."""

    query: str
    mode: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation(ABC):
    """An operation with a unique number, which it writes into its rows."""

    number: int

    @abstractmethod
    def apply(self, table: Table) -> Table:
        """Return the table after the operation, evaluated on it."""

    @abstractmethod
    def statement(self, table: Table, is_partitioned: bool) -> str:
        """Return the SQL of the operation. `{table}` stands for the table's place."""

    def write(self, table: Table) -> Write | None:
        """Return the operation as a write of a DataFrame, if it is one."""
        return None

    def region(self) -> Region | None:
        """Return the rows that an overwrite replaces, or None for other operations."""
        return None

    def _values(self, new: NewRow, table: Table) -> dict[str, Value]:
        """Return the values of a new row: those of added columns are texts."""
        own: dict[str, Value] = {KEY: new.key, ID: new.id, PART: new.part, WRITER: self.number}
        more = (each for each in table.columns if each not in own)
        return {**own, **{each: f"{each} of {new.key}" for each in more}}

    def _with(self, table: Table, rows: Sequence[NewRow], kept: Mapping[Version, Row]) -> Table:
        new = {(each.key, self.number): self._values(each, table) for each in rows}
        return replace(table, rows={**kept, **new})

    def _query(self, table: Table, rows: Sequence[NewRow], files: int, without: str = "") -> str:
        """Return a query of new rows, in some files."""
        names = [each for each in table.columns if each != without]
        lines = []
        for each in rows:
            values = self._values(each, table)
            lines.append(f"({', '.join(_literal(name, values[name]) for name in names)})")
        columns = ", ".join(
            f"CAST(col{at} AS {_TYPES.get(name, 'STRING')}) AS {table.columns[name]}"
            for at, name in enumerate(names, 1)
        )
        return f"SELECT /*+ REPARTITION({files}) */ {columns} FROM VALUES {', '.join(lines)}"


def _outside(operation: Operation, table: Table) -> dict[Version, Row]:
    region = operation.region()
    return {at: row for at, row in table.rows.items() if region is None or not region(row)}


def _literal(name: str, value: Value) -> str:
    return f"'{value}'" if name not in _TYPES else str(value)


def _names(table: Table) -> str:
    return ", ".join(table.columns.values())


@dataclass(frozen=True, slots=True)
class Insert(Operation):
    rows: tuple[NewRow, ...]
    files: int

    def apply(self, table: Table) -> Table:
        return self._with(table, self.rows, table.rows)

    def write(self, table: Table) -> Write:
        return Write(self._query(table, self.rows, self.files), "append")

    def statement(self, table: Table, is_partitioned: bool) -> str:
        query = self._query(table, self.rows, self.files)
        return f"INSERT INTO {{table}} ({_names(table)}) {query}"


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    where: Condition

    def apply(self, table: Table) -> Table:
        kept = {at: row for at, row in table.rows.items() if not self.where.holds(row)}
        return replace(table, rows=kept)

    def statement(self, table: Table, is_partitioned: bool) -> str:
        return f"DELETE FROM {{table}} WHERE {self.where.sql()}"


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """Changes the writer of rows and, if given, their partition or an added column."""

    where: Condition
    part: int | None = None
    column: str | None = None

    def apply(self, table: Table) -> Table:
        rows = {}
        for version, row in table.rows.items():
            if not self.where.holds(row):
                rows[version] = row
                continue
            changed = {**row, WRITER: self.number}
            if self.part is not None:
                changed[PART] = self.part
            if self.column is not None and self.column in table.columns:
                changed[self.column] = f"set by {self.number}"
            rows[version[0], self.number] = changed
        return replace(table, rows=rows)

    def statement(self, table: Table, is_partitioned: bool) -> str:
        settings = [f"{WRITER} = {self.number}"]
        if self.part is not None:
            settings.append(f"{PART} = {self.part}")
        if self.column is not None and self.column in table.columns:
            settings.append(f"{table.columns[self.column]} = 'set by {self.number}'")
        return f"UPDATE {{table}} SET {', '.join(settings)} WHERE {self.where.sql()}"


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    """A MERGE by id, which updates or deletes matched rows, and inserts the others."""

    rows: tuple[NewRow, ...]
    deletes: bool

    def apply(self, table: Table) -> Table:
        ids = {each.id for each in self.rows}
        matched = {row[ID] for row in table.rows.values()} & ids
        kept: dict[Version, Row] = {}
        for version, row in table.rows.items():
            if row[ID] not in matched:
                kept[version] = row
            elif not self.deletes:
                kept[version[0], self.number] = {**row, WRITER: self.number}
        return self._with(table, [each for each in self.rows if each.id not in matched], kept)

    def statement(self, table: Table, is_partitioned: bool) -> str:
        query = self._query(table, self.rows, 1)
        matched = "DELETE" if self.deletes else f"UPDATE SET t.{WRITER} = {self.number}"
        return (
            f"MERGE INTO {{table}} AS t USING ({query}) AS s ON t.{ID} = s.{ID} "
            f"WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"
        )


@dataclass(frozen=True, slots=True)
class Overwrite(Operation):
    """An overwrite of the whole table, or of the rows of a condition."""

    rows: tuple[NewRow, ...]
    files: int
    where: Condition | None = None

    def write(self, table: Table) -> Write:
        options = {"replaceWhere": self.where.sql()} if self.where else {}
        return Write(self._query(table, self.rows, self.files), "overwrite", options)

    def region(self) -> Region | None:
        return (lambda _: True) if self.where is None else self.where.holds

    def apply(self, table: Table) -> Table:
        return self._with(table, self.rows, _outside(self, table))

    def statement(self, table: Table, is_partitioned: bool) -> str:
        query = self._query(table, self.rows, self.files)
        if self.where is None:
            return f"INSERT OVERWRITE {{table}} ({_names(table)}) {query}"
        if is_partitioned and self.number % 2 and len(self.where.values) == 1:
            query = self._query(table, self.rows, self.files, without=PART)
            return f"INSERT OVERWRITE {{table}} PARTITION ({PART} = {self.where.values[0]}) {query}"
        return f"INSERT INTO {{table}} REPLACE WHERE {self.where.sql()} {query}"


@dataclass(frozen=True, slots=True)
class OverwritePartitions(Operation):
    """A dynamic overwrite: of the partitions of the new rows."""

    rows: tuple[NewRow, ...]
    files: int

    def write(self, table: Table) -> Write:
        return Write(self._query(table, self.rows, self.files), "overwrite-partitions")

    def region(self) -> Region | None:
        parts = {each.part for each in self.rows}
        return lambda row: row[PART] in parts

    def apply(self, table: Table) -> Table:
        return self._with(table, self.rows, _outside(self, table))

    def statement(self, table: Table, is_partitioned: bool) -> str:
        query = self._query(table, self.rows, self.files)
        return f"INSERT OVERWRITE {{table}} ({_names(table)}) {query}"


@dataclass(frozen=True, slots=True)
class Optimize(Operation):
    def apply(self, table: Table) -> Table:
        return table

    def statement(self, table: Table, is_partitioned: bool) -> str:
        return "OPTIMIZE {table}"


@dataclass(frozen=True, slots=True)
class AddColumn(Operation):
    name: str

    def apply(self, table: Table) -> Table:
        return replace(table, columns={**table.columns, self.name: self.name})

    def statement(self, table: Table, is_partitioned: bool) -> str:
        return f"ALTER TABLE {{table}} ADD COLUMNS ({self.name} STRING)"


@dataclass(frozen=True, slots=True)
class RenameColumn(Operation):
    column: str

    @property
    def name(self) -> str:
        return f"{self.column}_{self.number}"

    def apply(self, table: Table) -> Table:
        if self.column not in table.columns:
            return table
        return replace(table, columns={**table.columns, self.column: self.name})

    def statement(self, table: Table, is_partitioned: bool) -> str:
        name = table.columns[self.column]
        return f"ALTER TABLE {{table}} RENAME COLUMN {name} TO {self.name}"


@dataclass(frozen=True, slots=True)
class DropColumn(Operation):
    column: str

    def apply(self, table: Table) -> Table:
        return replace(table, columns={a: b for a, b in table.columns.items() if a != self.column})

    def statement(self, table: Table, is_partitioned: bool) -> str:
        return f"ALTER TABLE {{table}} DROP COLUMN {table.columns[self.column]}"
