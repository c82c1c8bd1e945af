"""Task bodies that list and copy objects."""
