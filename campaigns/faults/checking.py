"""The clean check of a whole repository after each round."""

from __future__ import annotations

import tempfile
from datetime import timedelta

from sparklake import Repository


class ViolationError(AssertionError):
    """A broken promise of the lake."""


def check_repository(repository: Repository) -> None:
    """Check everything with all contents: there are no errors and no warnings."""
    with tempfile.TemporaryDirectory() as folder:
        report = repository.check("content", to=folder, grace=timedelta())
    if not report.is_healthy:
        raise ViolationError(f"the check found {list(report.faults)}")
