"""Merges of Delta tables written by Spark on two branches."""
