"""Task bodies for tables: partitions and uploads."""
