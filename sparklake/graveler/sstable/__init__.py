"""SSTables for RocksDB, its JNI reader and lakeFS's pebble: format_version 2, Snappy."""
