"""Merges: their base, what they would do, and the commits that they make."""
