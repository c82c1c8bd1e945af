"""Iceberg as a plug-in for reads and diffs of tables."""

from sparklake.verbs.iceberg.read import find_iceberg_view, iceberg_sides, read_by_jar, reject_scan
from sparklake.verbs.tables.formats import TableFormat

ICEBERG_FORMAT = TableFormat(
    find_iceberg_view,
    iceberg_sides,
    reject_scan,
    lambda change: reject_scan(change.after),
    read_by_jar,
)
