"""Checks of a whole repository: refs, tables, objects and their content."""
