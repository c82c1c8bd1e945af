"""SQL over the tables of a lake: their names in statements, and statements on refs."""
