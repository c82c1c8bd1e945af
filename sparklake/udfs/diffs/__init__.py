"""Task bodies of diffs, and their rows."""
