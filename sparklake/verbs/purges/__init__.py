"""Purges, which delete the bytes of chosen paths from all history."""
