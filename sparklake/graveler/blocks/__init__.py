"""Streams of records, as blocks of columns."""
