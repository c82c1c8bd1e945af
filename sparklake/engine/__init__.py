"""Engines: the same task bodies in one thread, in several or as Spark jobs."""
