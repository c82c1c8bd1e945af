"""Recorded requests of concurrent clients, and a checker for their answers."""
