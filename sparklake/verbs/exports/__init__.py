"""Export of a commit to a plain directory or bucket."""
