"""DataFrames of table files: sources, views and row differences."""
