"""The union of one Delta table's logs on three sides: pure functions of parsed commits."""
