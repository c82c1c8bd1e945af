"""The Delta log format: file names, actions, paths, and the union of logs.

Pure functions, without Spark, stores or verbs.
"""
