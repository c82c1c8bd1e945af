"""Merges: their base, their previews, and their commits."""
