"""Seeds of random cases: a few in `make test`, all of them in `make test-system`."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int, always: int) -> list[Any]:
    """Return the parameters 0 to `count` - 1; those from `always` on are system tests."""
    later = [pytest.param(each, marks=pytest.mark.system) for each in range(always, count)]
    return [*range(always), *later]
