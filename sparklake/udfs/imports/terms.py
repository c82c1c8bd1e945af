"""What the tasks of an import need to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ImportTerms:
    """Is how rows are imported.

    `folder` is put before every path; `imported_at`, in unix nanoseconds, is the time of objects
    that come without one. Where `skips`, rows with errors are left out and the rest is written.
    All errors go to Parquet files under `errors_to`, the first `reported` of each task to the
    driver.
    """

    folder: str
    imported_at: int
    skips: bool = False
    errors_to: str | None = None
    reported: int = 100
