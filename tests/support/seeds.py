"""Seeds of random cases: a few in `make test`, the others in `make test-slow`."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int, always: int) -> list[Any]:
    """Return the parameters 0 to `count` - 1; those from `always` on are exhaustive."""
    later = [pytest.param(each, marks=pytest.mark.exhaustive) for each in range(always, count)]
    return [*range(always), *later]
