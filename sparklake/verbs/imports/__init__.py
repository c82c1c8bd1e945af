"""Import objects where they lie."""
