"""Operations on a table: their meaning for rows in plain Python, and their SQL."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

Value: TypeAlias = int | str | None
Row: TypeAlias = Mapping[str, Value]
"""Values by the first name of their column; `n.a` is a field of a struct. A missing one is null."""

Contents: TypeAlias = list[tuple[tuple[str, Value], ...]]
"""The rows of a table in order, each with its columns in order, in small letters."""

Region: TypeAlias = Callable[[Row], bool]

Version: TypeAlias = int
"""The identity of a row as one operation wrote it."""

ID, PART, WRITER, NUMBER, TEXT, FIELD = "id", "p", "v", "w", "s", "n.a"
OWN_COLUMNS = (ID, PART, WRITER, NUMBER, TEXT, FIELD)
STRUCT = "n"
_TYPES = {ID: "BIGINT", PART: "INT", WRITER: "BIGINT", NUMBER: "INT", FIELD: "BIGINT"}
PARQUET, DELTA, ICEBERG, PYICEBERG = "parquet", "delta", "iceberg", "pyiceberg"
"""Formats. pyiceberg records an overwrite as a deletion and an append."""

_versions = itertools.count()


@dataclass(frozen=True, slots=True)
class Table:
    """A table: columns by their first names, row versions and declarations."""

    columns: Mapping[str, str]
    rows: Mapping[Version, Row]
    is_wide: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    checks: frozenset[int] = frozenset()
    """The ids that constraints exclude."""
    format: str = ""

    def contents(self) -> Contents:
        """Return the rows with their present names, in order."""
        rows = self.rows.values()
        return in_order({n: row.get(at) for at, n in self.columns.items()} for row in rows)

    def type_of(self, column: str) -> str:
        return "BIGINT" if column == NUMBER and self.is_wide else _TYPES.get(column, "STRING")


def in_order(rows: Iterable[Row]) -> Contents:
    pairs = (tuple(sorted((name.lower(), value) for name, value in row.items())) for row in rows)
    return sorted(pairs, key=repr)


EMPTY = Table({each: each for each in OWN_COLUMNS}, {})


@dataclass(frozen=True, slots=True)
class Target:
    """How an operation is written: the table before it, its format, and the layout of its files."""

    table: Table
    format: str
    is_partitioned: bool
    files: int = 1
    is_upper: bool = False
    """Whether names of columns are spelled in capitals."""

    def name(self, column: str) -> str:
        name = self.table.columns[column]
        return name.upper() if self.is_upper else name

    def names(self) -> str:
        return ", ".join(
            dict.fromkeys(self.name(each).split(".")[0] for each in self.table.columns)
        )

    def query(self, rows: Sequence[Row]) -> str:
        """Return a row query, split into the number of files."""
        values = ", ".join(
            f"({', '.join(_literal(row.get(column)) for column in self.table.columns)})"
            for row in rows
        )
        columns: dict[str, list[str]] = {}
        for at, column in enumerate(self.table.columns, 1):
            name, _, part = self.name(column).partition(".")
            cast = f"CAST(col{at} AS {self.table.type_of(column)})"
            columns.setdefault(name, []).extend([f"'{part}'", cast] if part else [cast])
        casts = (
            f"{each[0]} AS {name}"
            if len(each) == 1
            else f"named_struct({', '.join(each)}) AS {name}"
            for name, each in columns.items()
        )
        hint = f"REPARTITION({self.files})" if self.files > 1 else "COALESCE(1)"
        return f"SELECT /*+ {hint} */ {', '.join(casts)} FROM VALUES {values}"


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


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

    def sql(self) -> str:
        column = self.column if self.modulus is None else f"{self.column} % {self.modulus}"
        if len(self.values) == 1:
            return f"{column} = {self.values[0]}"
        return f"{column} IN ({', '.join(map(str, self.values))})"


@dataclass(frozen=True, slots=True)
class Operation(ABC):
    """An operation with a number, written into its rows."""

    number: int

    @abstractmethod
    def apply(self, table: Table) -> Table:
        """Return the table after the operation, evaluated on it."""

    @abstractmethod
    def sql(self, target: Target) -> list[str]:
        """Return the statements. `{table}` stands for the table."""

    def region(self, target: Target) -> Region | None:
        """Return the rows replaced by an overwrite, or None for other operations."""
        return None

    def _with(self, table: Table, rows: Sequence[Row], others: Mapping[Version, Row]) -> Table:
        return replace(table, rows={**others, **{next(_versions): row for row in rows}})


@dataclass(frozen=True, slots=True)
class Change:
    """An operation, and the table before and after it."""

    operation: Operation
    before: Table
    after: Table

    @staticmethod
    def of(operation: Operation, table: Table) -> Change:
        return Change(operation, table, operation.apply(table))


@dataclass(frozen=True, slots=True)
class Insert(Operation):
    rows: tuple[Row, ...]

    def apply(self, table: Table) -> Table:
        return self._with(table, self.rows, table.rows)

    def sql(self, target: Target) -> list[str]:
        return [f"INSERT INTO {{table}} ({target.names()}) {target.query(self.rows)}"]


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    where: Condition

    def apply(self, table: Table) -> Table:
        rows = {at: row for at, row in table.rows.items() if not self.where.holds(row)}
        return replace(table, rows=rows)

    def sql(self, target: Target) -> list[str]:
        return [f"DELETE FROM {{table}} WHERE {self.where.sql()}"]


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """New values of rows: the writer and the given ones."""

    where: Condition
    values: Mapping[str, Value]

    def apply(self, table: Table) -> Table:
        rows: dict[Version, Row] = {}
        for version, row in table.rows.items():
            if self.where.holds(row):
                version, row = next(_versions), {**row, **self._present(table)}
            rows[version] = row
        return replace(table, rows=rows)

    def _present(self, table: Table) -> dict[str, Value]:
        return {name: value for name, value in self.values.items() if name in table.columns}

    def sql(self, target: Target) -> list[str]:
        values = self._present(target.table).items()
        settings = ", ".join(f"{target.name(name)} = {_literal(value)}" for name, value in values)
        return [f"UPDATE {{table}} SET {settings} WHERE {self.where.sql()}"]


@dataclass(frozen=True, slots=True)
class Upsert(Operation):
    """A MERGE by id: matched rows get the writer and number, or are deleted; others are added."""

    rows: tuple[Row, ...]
    deletes: bool

    def apply(self, table: Table) -> Table:
        by_id = {each[ID]: each for each in self.rows}
        matched = {row[ID] for row in table.rows.values()} & by_id.keys()
        rows: dict[Version, Row] = {}
        for version, row in table.rows.items():
            new = by_id.get(row[ID])
            if new is None:
                rows[version] = row
            elif not self.deletes:
                rows[next(_versions)] = {**row, WRITER: new[WRITER], NUMBER: new[NUMBER]}
        return self._with(table, [each for each in self.rows if each[ID] not in matched], rows)

    def sql(self, target: Target) -> list[str]:
        names = (target.name(each) for each in (WRITER, NUMBER))
        settings = ", ".join(f"t.{name} = s.{name}" for name in names)
        matched = "DELETE" if self.deletes else f"UPDATE SET {settings}"
        return [
            f"MERGE INTO {{table}} AS t USING ({target.query(self.rows)}) AS s "
            f"ON t.{ID} = s.{ID} WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"
        ]


@dataclass(frozen=True, slots=True)
class Overwrite(Operation):
    """An overwrite of the whole table or the matching rows."""

    rows: tuple[Row, ...]
    where: Condition | None = None

    def _replaces(self, row: Row) -> bool:
        return self.where is None or self.where.holds(row)

    def apply(self, table: Table) -> Table:
        rows = {at: row for at, row in table.rows.items() if not self._replaces(row)}
        return self._with(table, self.rows, rows)

    def region(self, target: Target) -> Region | None:
        if target.format == PYICEBERG:
            return None
        is_recorded = self.where is None or target.format == DELTA or self.is_dynamic(target)
        return self._replaces if is_recorded else None

    def is_dynamic(self, target: Target) -> bool:
        """Return whether it replaces the partitions of its rows, whatever they are."""
        if self.where is None or not target.is_partitioned or self.number % 2:
            return False
        return self.where.column == PART and {row[PART] for row in self.rows} == {
            *self.where.values
        }

    def sql(self, target: Target) -> list[str]:
        query, names = target.query(self.rows), target.names()
        if self.where is None or self.is_dynamic(target):
            return [f"INSERT OVERWRITE {{table}} ({names}) {query}"]
        if target.format == DELTA:
            return [f"INSERT INTO {{table}} REPLACE WHERE {self.where.sql()} {query}"]
        return [
            f"DELETE FROM {{table}} WHERE {self.where.sql()}",
            f"INSERT INTO {{table}} ({names}) {query}",
        ]


@dataclass(frozen=True, slots=True)
class Restore(Operation):
    """Rows as they were at base: by the format's own RESTORE, or a clone of base."""

    rows: Mapping[Version, Row]
    is_clone: bool = False

    def apply(self, table: Table) -> Table:
        return replace(table, rows=self.rows)

    def region(self, target: Target) -> Region | None:
        return (lambda _: True) if target.format == DELTA else None

    def sql(self, target: Target) -> list[str]:
        if self.is_clone and target.format == DELTA:
            return ["CREATE OR REPLACE TABLE {table} SHALLOW CLONE {clone}"]
        if target.format == DELTA:
            return ["RESTORE TABLE {table} TO VERSION AS OF {version}"]
        return ["CALL {catalog}.system.rollback_to_snapshot('{table}', {version})"]


@dataclass(frozen=True, slots=True)
class AddColumn(Operation):
    """A new text column, or a struct field."""

    name: str

    def apply(self, table: Table) -> Table:
        return replace(table, columns={**table.columns, self.name: self.name})

    def sql(self, target: Target) -> list[str]:
        return [f"ALTER TABLE {{table}} ADD COLUMNS ({self.name} STRING)"]


@dataclass(frozen=True, slots=True)
class RenameColumn(Operation):
    column: str

    def apply(self, table: Table) -> Table:
        if self.column not in table.columns:
            return table
        return replace(
            table, columns={**table.columns, self.column: f"{self.column}_{self.number}"}
        )

    def sql(self, target: Target) -> list[str]:
        new = f"{self.column}_{self.number}"
        return [f"ALTER TABLE {{table}} RENAME COLUMN {target.table.columns[self.column]} TO {new}"]


@dataclass(frozen=True, slots=True)
class DropColumn(Operation):
    column: str

    def apply(self, table: Table) -> Table:
        columns = {at: name for at, name in table.columns.items() if at != self.column}
        return replace(table, columns=columns)

    def sql(self, target: Target) -> list[str]:
        return [f"ALTER TABLE {{table}} DROP COLUMN {target.table.columns[self.column]}"]


@dataclass(frozen=True, slots=True)
class Widen(Operation):
    """A wider type for the column of small numbers."""

    def apply(self, table: Table) -> Table:
        return replace(table, is_wide=True)

    def sql(self, target: Target) -> list[str]:
        return [f"ALTER TABLE {{table}} ALTER COLUMN {NUMBER} TYPE BIGINT"]


@dataclass(frozen=True, slots=True)
class SetProperty(Operation):
    name: str

    def apply(self, table: Table) -> Table:
        return replace(table, properties={**table.properties, self.name: str(self.number)})

    def sql(self, target: Target) -> list[str]:
        return [f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{self.name}' = '{self.number}')"]


@dataclass(frozen=True, slots=True)
class AddCheck(Operation):
    """A constraint against one id."""

    id: int

    def apply(self, table: Table) -> Table:
        return replace(table, checks=table.checks | {self.id})

    def sql(self, target: Target) -> list[str]:
        return [f"ALTER TABLE {{table}} ADD CONSTRAINT no_{self.id} CHECK ({ID} <> {self.id})"]


@dataclass(frozen=True, slots=True)
class ChangeFormat(Operation):
    """A migration: the same rows at the same path, in another format."""

    format: str

    def apply(self, table: Table) -> Table:
        return replace(table, format=self.format)

    def sql(self, target: Target) -> list[str]:
        raise NotImplementedError
