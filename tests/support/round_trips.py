"""Counts of the queries to the ref store, and of the rows that it returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from sparklake.stores.postgres.connections import Connections


@contextmanager
def counted_round_trips() -> Iterator[list[int]]:
    """Record the number of rows of each answer of Postgres, in order."""
    answers: list[int] = []
    fetch = Connections.fetch

    def noting(connections: Connections, *arguments: Any) -> list[tuple[Any, ...]]:
        rows = fetch(connections, *arguments)
        answers.append(len(rows))
        return rows

    with mock.patch.object(Connections, "fetch", noting):
        yield answers
