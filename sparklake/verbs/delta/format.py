"""Delta as a table format."""

from sparklake.verbs.delta.diff import delta_sides
from sparklake.verbs.delta.merge import delta_union, find_delta_rows
from sparklake.verbs.delta.read import find_delta_view
from sparklake.verbs.delta.scan import new_files, scan_delta
from sparklake.verbs.delta.write import delta_copy
from sparklake.verbs.tables.format import TableFormat

FORMAT = TableFormat(
    name="delta",
    find_view=find_delta_view,
    sides=delta_sides,
    scan=scan_delta,
    new_files=new_files,
    find_rows=find_delta_rows,
    stream_options=lambda query, number: {"txnAppId": f"sparklake/{query}", "txnVersion": number},
    copied=delta_copy,
    unite=delta_union,
    replacing={"overwriteSchema": "true"},
)
