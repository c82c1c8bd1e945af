"""Git for data lakes."""
