"""Verbs on tables: read at any ref, write with Spark's writers, compare by rows."""
