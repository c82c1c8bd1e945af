"""How the logs of one Delta table on three sides become one: pure functions of parsed commits."""
