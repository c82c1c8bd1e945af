"""Export a commit to a plain directory or bucket."""
