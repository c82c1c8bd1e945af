"""Metadata of Iceberg tables as values: parsed from stored bytes, without Spark or a store."""
