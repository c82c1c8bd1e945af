"""Purges: bytes of chosen paths are deleted from all history."""
