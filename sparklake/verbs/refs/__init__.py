"""Branches, tags, settings and ref moves."""
