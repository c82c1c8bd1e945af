"""Garbage collections."""
