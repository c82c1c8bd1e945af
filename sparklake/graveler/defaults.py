"""Default arguments of the public verbs, in a module without imports."""

from __future__ import annotations

DEFAULT_RANGE_RECORDS = 4096  # The approximate number of records per range.

MAX_RANGE_RECORDS = 1 << 16

DEFAULT_CONTENT_TYPE = "application/octet-stream"

IMPORTED_CONTENT_TYPE = ""  # The content type of imported objects without one, as lakeFS stores it.
