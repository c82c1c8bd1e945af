"""The format of Delta's log: the names of its files, its actions, and the paths in them.

Nothing else in sparklake knows it. `union` makes one log of those of three sides.
"""
