"""Dumps of refs and commits, and their restores."""
