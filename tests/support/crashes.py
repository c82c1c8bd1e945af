"""Simulated deaths of a process: a step raises, and nothing after it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest


class CrashError(Exception):
    """The death of a process."""


@contextmanager
def dies_at(step: int, owner: type, names: Sequence[str]) -> Iterator[None]:
    """Raise CrashError before one of the calls of some methods, never inside one."""
    left = [step]

    def mortal(method: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise CrashError
            return method(*given, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(owner, name, mortal(getattr(owner, name)))
        yield
