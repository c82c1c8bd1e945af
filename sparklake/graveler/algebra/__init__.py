"""Diff, apply and merge over streams of records. Memory is bounded by a few blocks."""
