"""Ref names and dumps of refs."""
