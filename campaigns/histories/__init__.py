"""Recorded requests of concurrent clients, and the checker of their answers."""
