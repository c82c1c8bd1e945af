"""Metadata of tables as values, without Spark and without a lake."""
