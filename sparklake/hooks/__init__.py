"""Hooks, which users declare to run before and after verbs: parsing and execution."""
