"""Garbage collections: what nothing names is found, and deleted."""
