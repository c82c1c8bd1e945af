"""What unions of the two histories of a table share, in any table format."""
