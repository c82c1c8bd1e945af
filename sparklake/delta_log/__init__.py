"""The Delta log format: file names, actions, paths, and the union of logs.

Pure: no Spark, no stores, no verbs.
"""
