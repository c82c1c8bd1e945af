"""SSTables: files of records in key order that RocksDB, its JNI reader and lakeFS's pebble read.

Format_version 2, crc32c, Snappy. Our own hold plain entries, each to be found by itself, and a
directory: that is what lets a file be read and written by columns, and only where it must be.
"""

from sparklake.graveler.sstable.foreign import make_plain_table, read_foreign, table_properties
from sparklake.graveler.sstable.layout import damaged_table, out_of_order
from sparklake.graveler.sstable.reader import read_table
from sparklake.graveler.sstable.writer import make_table

__all__ = [
    "damaged_table",
    "make_plain_table",
    "make_table",
    "out_of_order",
    "read_foreign",
    "read_table",
    "table_properties",
]
