"""Purges: delete the bytes of the given paths from all history."""
