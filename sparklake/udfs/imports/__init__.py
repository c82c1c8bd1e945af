"""What tasks do for an import: read a source, check its rows, write their ranges."""
