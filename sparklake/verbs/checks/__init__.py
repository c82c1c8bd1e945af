"""Checks of a whole repository: refs, tree files, objects and their content."""
