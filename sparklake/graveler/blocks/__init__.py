"""Streams of records in blocks of columns."""
