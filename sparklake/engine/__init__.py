"""Engines: plans run in this process, in worker processes or as Spark jobs.

All engines run the same task bodies.
"""
