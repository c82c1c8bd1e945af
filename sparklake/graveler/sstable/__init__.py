"""SSTables: record files for RocksDB, its JNI reader and lakeFS's pebble.

The format is format_version 2 with CRC-32C and Snappy. Our own tables have plain entries, each
readable separately, and a directory, so a file is read and written in columns, and in part.
"""
