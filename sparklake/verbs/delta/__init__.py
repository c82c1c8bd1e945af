"""Verbs on Delta tables: write, read and compare at refs, and unite in merges."""
