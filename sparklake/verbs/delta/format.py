"""Delta as a plug-in for reads and diffs of tables."""

from sparklake.verbs.delta.diff import delta_sides
from sparklake.verbs.delta.read import find_delta_view
from sparklake.verbs.delta.scan import new_files, scan_delta
from sparklake.verbs.tables.formats import TableFormat

DELTA_FORMAT = TableFormat(find_delta_view, delta_sides, scan_delta, new_files)
