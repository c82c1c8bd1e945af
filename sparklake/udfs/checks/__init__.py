"""Task bodies of a check of a whole repository, and the kinds of its findings."""
