"""Record streams, as blocks of columns."""
