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
    """Raise CrashError before a call of the given methods, never inside one."""
    remaining = [step]

    def mortal(method: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            remaining[0] -= 1
            if remaining[0] < 0:
                raise CrashError
            return method(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(owner, name, mortal(getattr(owner, name)))
        yield
