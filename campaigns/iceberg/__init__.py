"""Campaigns over Iceberg tables, without Spark."""
