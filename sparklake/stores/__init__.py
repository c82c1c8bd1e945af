"""Implementations of the core's ports: object stores and ref stores."""
