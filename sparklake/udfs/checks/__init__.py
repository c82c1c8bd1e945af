"""Task bodies of a check of a whole repository."""
