"""Branches, tags, settings, ref moves, dumps and restores."""
