"""Sets of deleted rows of data files: their bytes, and the union of two sides'."""
