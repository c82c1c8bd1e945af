"""Verbs on Delta tables: write, read, compare and merge."""
