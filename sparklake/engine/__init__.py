"""Engines: plans run in one thread, in several or as Spark jobs.

All engines run the same task bodies.
"""
