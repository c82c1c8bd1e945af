"""Task bodies of an import: read a source, check its rows, write their ranges."""
