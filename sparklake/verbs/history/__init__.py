"""Verbs on the history: log, changes of commits, blame, and pictures."""
