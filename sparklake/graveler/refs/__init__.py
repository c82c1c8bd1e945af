"""Ref names, guards and dumps."""
