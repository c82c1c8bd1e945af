"""Ref names."""
