"""Random changes of an Iceberg table in SQL, with their meaning in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

Row = tuple[int, str, int]
Rows = frozenset[Row]

PARTS = ("a", "b", "c")
KINDS = (
    *("append", "append", "delete", "delete", "replace", "update", "merge", "merge", "overwrite"),
    *("column", "partition", "files", "manifests"),
)
SAME_ROWS = ("files", "manifests")
"""The kinds that change only files."""

_SOURCE = "AS s(id, part, value)"
_DELETED_BELOW = 30
_DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
_PARTITIONS = {"bucket": "bucket(2, id)", "identity": "part"}


@dataclass(frozen=True, slots=True)
class SparkChange:
    """A change with its range of values, its partition and its rows, as far as the kind has them.

    A table `by_part` is partitioned by the column of that name.
    """

    kind: str
    by_part: bool
    low: int
    high: int
    rows: Sequence[Row]

    @staticmethod
    def choose(
        random: Random, rows: Rows, new: Sequence[Row], *, by_part: bool, evolved: bool
    ) -> SparkChange:
        """Choose a change. The files that an overwrite of an evolved table removes vary."""
        kind = random.choice([each for each in KINDS if not evolved or each != "overwrite"])
        low = random.randrange(100)
        given = list(new)
        if kind == "merge":
            some = random.sample(sorted(rows), min(len(rows), 2))
            given += [(at, part, random.randrange(100)) for at, part, _ in some]
        return SparkChange(kind, by_part, low, low + random.randrange(30), given)

    def evaluate(self, rows: Rows) -> Rows:
        """Return the rows after the change."""
        hit = {row for row in rows if self.low <= row[2] <= self.high}
        parts = {row[1] for row in self.rows}
        given = {row[0]: row for row in self.rows}
        if self.kind == "append":
            return rows | {*self.rows}
        if self.kind == "delete":
            return rows - hit
        if self.kind == "update":
            return rows - hit | {(at, part, value + 1000) for at, part, value in hit}
        if self.kind == "replace" or (self.kind == "overwrite" and self.by_part):
            return frozenset(row for row in rows if row[1] not in parts) | {*self.rows}
        if self.kind == "overwrite":
            return frozenset(self.rows)
        if self.kind == "merge":
            matched = {(at, part, given[at][2]) for at, part, _ in rows if at in given}
            absent = given.keys() - {row[0] for row in rows}
            return (
                frozenset(row for row in rows if row[0] not in given)
                | {row for row in matched if row[2] >= _DELETED_BELOW}
                | {given[at] for at in absent}
            )
        return rows

    def statements(self, table: str, catalog: str, columns: Sequence[str], spec: str) -> list[str]:
        """Return the change in SQL, for a table with these columns and this partition spec."""
        value = columns[2]
        rows = ", ".join(f"({at}L, '{part}', {number}L)" for at, part, number in self.rows)
        where = f"WHERE {value} BETWEEN {self.low} AND {self.high}"
        insert = f"INTO {table} (id, part, {value}) VALUES {rows}"
        if self.kind == "append":
            return [f"INSERT {insert}"]
        if self.kind == "replace":
            return [f"DELETE FROM {table} WHERE part = '{self.rows[0][1]}'", f"INSERT {insert}"]
        if self.kind == "overwrite":
            overwrite = f"INSERT {insert}".replace("INTO", "OVERWRITE", 1)
            return [f"SET {_DYNAMIC}=dynamic", overwrite, f"RESET {_DYNAMIC}"]
        if self.kind == "delete":
            return [f"DELETE FROM {table} {where}"]
        if self.kind == "update":
            return [f"UPDATE {table} SET {value} = {value} + 1000 {where}"]
        if self.kind == "merge":
            return [
                f"MERGE INTO {table} t USING (SELECT * FROM VALUES {rows} {_SOURCE}) s "
                f"ON t.id = s.id WHEN MATCHED AND s.value < {_DELETED_BELOW} THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET t.{value} = s.value "
                f"WHEN NOT MATCHED THEN INSERT (id, part, {value}) VALUES (s.id, s.part, s.value)"
            ]
        if self.kind == "column":
            return self._columns(table, columns)
        if self.kind == "partition":
            name = [*_PARTITIONS][self.low % 2]
            verb = "DROP" if name in spec else "ADD"
            return [f"ALTER TABLE {table} {verb} PARTITION FIELD {_PARTITIONS[name]}"]
        if self.kind == "files":
            options = "options => map('rewrite-all', 'true')"
            return [f"CALL {catalog}.system.rewrite_data_files(table => '{table}', {options})"]
        return [f"CALL {catalog}.system.rewrite_manifests(table => '{table}')"]

    def _columns(self, table: str, columns: Sequence[str]) -> list[str]:
        """Rename a column of the rows, or add or drop one beside them."""
        number = self.low % 3
        if self.high % 3 == 0:
            name = f"value{number}"
            return [f"ALTER TABLE {table} RENAME COLUMN {columns[2]} TO {name}"] * (
                name != columns[2]
            )
        name = f"c{number}"
        change = f"DROP COLUMN {name}" if name in columns else f"ADD COLUMN {name} string"
        return [f"ALTER TABLE {table} {change}"]
