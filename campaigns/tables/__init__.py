"""Merges of Delta tables that Spark wrote on two branches."""
