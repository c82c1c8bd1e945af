"""Algorithms on the commit graph."""
