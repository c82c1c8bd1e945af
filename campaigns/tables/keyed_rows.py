"""Tables with a key: changes by MERGE, and the three-way merge of dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

Row: TypeAlias = tuple[int, str, str]
"""The partition and two texts of a row."""

Rows: TypeAlias = Mapping[int, Row]

IDS = 14
COLUMNS = ("p", "a", "b")


@dataclass(frozen=True, slots=True)
class Changes:
    """New rows by id; None deletes."""

    rows: Mapping[int, Row | None]

    @staticmethod
    def of(random: Random, table: Rows) -> Changes:
        """Choose changes of few rows: one column, both, a deletion or an insertion."""
        rows: dict[int, Row | None] = {}
        for key in random.sample(range(IDS), random.randint(1, 4)):
            old = table.get(key)
            if old is None:
                rows[key] = (key % 3, _text(random), _text(random))
            elif random.random() < 0.2:
                rows[key] = None
            else:
                part, a, b = old
                choice = random.random()
                rows[key] = (
                    part,
                    a if choice < 0.4 else _text(random),
                    b if 0.4 <= choice < 0.8 else _text(random),
                )
        return Changes(rows)

    def apply(self, table: Rows) -> Rows:
        merged = {**table, **self.rows}
        return {key: row for key, row in merged.items() if row is not None}

    def statement(self, place: str) -> str:
        values = ", ".join(
            f"({key}, NULL, NULL, NULL, true)"
            if row is None
            else f"({key}, {row[0]}, '{row[1]}', '{row[2]}', false)"
            for key, row in self.rows.items()
        )
        return (
            f"MERGE INTO delta.`{place}` AS t USING "
            "(SELECT CAST(col1 AS BIGINT) AS id, CAST(col2 AS INT) AS p, col3 AS a, col4 AS b, "
            f"col5 AS gone FROM VALUES {values}) AS s ON t.id = s.id "
            "WHEN MATCHED AND s.gone THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET t.p = s.p, t.a = s.a, t.b = s.b "
            "WHEN NOT MATCHED AND NOT s.gone THEN INSERT (id, p, a, b) "
            "VALUES (s.id, s.p, s.a, s.b)"
        )


def _text(random: Random) -> str:
    """Return one of few texts, so that both sides sometimes write the same one."""
    return random.choice("xyz")


@dataclass(frozen=True, slots=True)
class RowMerge:
    """The rows of a three-way merge, without the keys in conflict."""

    rows: Rows
    conflicts: frozenset[int]

    @staticmethod
    def of(base: Rows, source: Rows, dest: Rows, *, columns: bool, winner: str | None) -> RowMerge:
        """Merge dicts by key. `winner` is the side that wins conflicts, if any."""
        rows, conflicts = {}, set()
        for key in {*base, *source, *dest}:
            old, one, other = (each.get(key) for each in (base, source, dest))
            won = one if winner == "source" else other
            row = old
            if one == other or other == old:
                row = one
            elif one == old:
                row = other
            elif columns and old and one and other:
                cells = [_cell(*each, winner=winner) for each in zip(old, one, other, strict=True)]
                if None in cells:
                    conflicts.add(key)
                else:
                    row = cells[0], cells[1], cells[2]
            elif winner is None:
                conflicts.add(key)
            else:
                row = won
            if row is not None:
                rows[key] = row
        return RowMerge(rows, frozenset(conflicts))


def _cell(old: Any, one: Any, other: Any, winner: str | None) -> Any:
    if one in (other, old):
        return other
    if other == old:
        return one
    return {"source": one, "dest": other, None: None}[winner]
