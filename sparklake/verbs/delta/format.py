"""Delta tables as a format that tables are read and compared in."""

from __future__ import annotations

from sparklake.verbs.delta.diff import delta_sides
from sparklake.verbs.delta.read import find_delta_view
from sparklake.verbs.tables.formats import TableFormat

DELTA_FORMAT = TableFormat(find_delta_view, delta_sides)
