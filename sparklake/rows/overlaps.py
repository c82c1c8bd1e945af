"""Rows of tables that both sides of a merge changed."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.rows.objects import ObjectInfo


@dataclass(frozen=True, slots=True)
class RowOverlap:
    """Rows of one file of a Delta table, marked in the deletion vectors of both sides.

    `positions` are the first ones in the file, from 0, and `count` is their total number.
    """

    table: str
    file: ObjectInfo
    positions: tuple[int, ...]
    count: int
