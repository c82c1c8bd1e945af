"""A record of the statements that are sent to Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import psycopg


@contextmanager
def recorded_statements() -> Iterator[list[str]]:
    """Record the statements of all cursors of this process, in order."""
    sent: list[str] = []

    def noting(execute: Callable[..., Any]) -> Callable[..., Any]:
        def call(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
            sent.append(str(query))
            return execute(cursor, query, *arguments, **options)

        return call

    with (
        mock.patch.object(psycopg.Cursor, "execute", noting(psycopg.Cursor.execute)),
        mock.patch.object(psycopg.ServerCursor, "execute", noting(psycopg.ServerCursor.execute)),
    ):
        yield sent
