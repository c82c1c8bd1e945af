"""Runs plans: in this process or as Spark jobs, always the same task bodies."""
