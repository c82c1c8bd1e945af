"""Delta as a plug-in for reads and diffs of tables."""

from __future__ import annotations

from sparklake.verbs.delta.diff import delta_sides
from sparklake.verbs.delta.read import find_delta_view
from sparklake.verbs.tables.formats import TableFormat

DELTA_FORMAT = TableFormat(find_delta_view, delta_sides)
