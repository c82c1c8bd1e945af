"""Import of objects in place."""
