"""SSTables: files of records in key order that RocksDB, its JNI reader and lakeFS's pebble read.

Format_version 2, crc32c, Snappy, 32 KiB blocks. Our own hold plain entries, each to be found by
itself: that is what lets a file be read and written by columns.
"""

from sparklake.graveler.sstable.foreign import read_foreign
from sparklake.graveler.sstable.reader import read_tables
from sparklake.graveler.sstable.writer import table_bytes

__all__ = ["read_foreign", "read_tables", "table_bytes"]
