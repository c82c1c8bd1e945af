"""Iceberg as a table format."""

from sparklake.verbs.iceberg.merge import find_iceberg_rows, iceberg_union
from sparklake.verbs.iceberg.read import find_iceberg_view, iceberg_sides, read_by_jar, reject_scan
from sparklake.verbs.iceberg.write import ICEBERG, iceberg_copy
from sparklake.verbs.tables.format import TableFormat

FORMAT = TableFormat(
    name=ICEBERG,
    find_view=find_iceberg_view,
    sides=iceberg_sides,
    scan=reject_scan,
    new_files=lambda change: reject_scan(change.after),
    find_rows=find_iceberg_rows,
    copied=iceberg_copy,
    unite=iceberg_union,
    read=read_by_jar,
)
