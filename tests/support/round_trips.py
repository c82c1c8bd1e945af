"""What a test asks of the ref store: how often it was asked, and how many rows it sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from sparklake.stores.postgres.connections import Connections


@contextmanager
def counted_round_trips() -> Iterator[list[int]]:
    """Note the number of rows of each answer of Postgres to a query, in order."""
    answers: list[int] = []
    fetch = Connections.fetch

    def noting(connections: Connections, *arguments: Any) -> list[tuple[Any, ...]]:
        rows = fetch(connections, *arguments)
        answers.append(len(rows))
        return rows

    with mock.patch.object(Connections, "fetch", noting):
        yield answers
