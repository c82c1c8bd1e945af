"""The contract of object stores, in-memory stores and lakes, for tests and implementers of stores.

Ref stores are not pluggable, so their contract is with the tests.
"""
