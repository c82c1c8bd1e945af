"""Diff, apply and merge over streams of records.

The algebra does no I/O. Memory is bounded by one block of each stream, plus the few blocks of dest
that wait for a decision. Records are compared by id and found by key, a whole block at a time. Only
conflicts are handled one by one.
"""
