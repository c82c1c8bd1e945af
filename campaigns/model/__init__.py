"""A model of publishing and collection, explored exhaustively."""
