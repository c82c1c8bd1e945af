"""Calls by others between two steps of a verb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def just_before(owner: type, name: str, act: Any) -> Iterator[None]:
    """Run `act` once, just before a method of the ref store is called."""
    called, pending = getattr(owner, name), [act]

    def late(self: Any, *arguments: Any, **options: Any) -> Any:
        if pending:
            pending.pop()()
        return called(self, *arguments, **options)

    with mock.patch.object(owner, name, late):
        yield
