"""Contracts, in-memory stores and lakes for tests, campaigns and store implementers."""
