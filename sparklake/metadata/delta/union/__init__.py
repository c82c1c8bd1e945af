"""The union of a Delta table's logs on three sides, from parsed commits."""
