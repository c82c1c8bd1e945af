"""SSTables: record files for RocksDB, its JNI reader and lakeFS's pebble.

The format is format_version 2 with CRC-32C and Snappy. Our own tables have plain entries, each
readable separately, and a directory, so a file is read and written in columns, and in part.
"""

from sparklake.graveler.sstable.foreign import make_plain_table, read_foreign, table_properties
from sparklake.graveler.sstable.layout import damaged_table, ends_whole, out_of_order
from sparklake.graveler.sstable.reader import DataBlocks, read_sstable
from sparklake.graveler.sstable.writer import make_table

__all__ = [
    "DataBlocks",
    "damaged_table",
    "ends_whole",
    "make_plain_table",
    "make_table",
    "out_of_order",
    "read_foreign",
    "read_sstable",
    "table_properties",
]
