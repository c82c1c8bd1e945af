"""Verbs on refs: branches, tags, settings, moves, dumps and restores."""
