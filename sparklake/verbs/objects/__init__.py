"""Verbs on objects and folders: open, put, move, remove, restore and list."""
