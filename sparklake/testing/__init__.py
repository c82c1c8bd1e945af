"""Contracts, memory stores and lakes for tests, campaigns and implementers of a store."""
