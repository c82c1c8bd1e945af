"""Task bodies of a repository check."""
