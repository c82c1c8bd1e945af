"""Tables: read at any ref, written by Spark's own writers, and compared by rows."""
