"""Iceberg tables at refs."""
