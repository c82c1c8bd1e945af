"""Garbage collections, which find and delete unnamed objects."""
