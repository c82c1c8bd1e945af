"""Counters of calls of local object stores (each a request on S3), of queries and branch moves."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import psycopg

from sparklake.graveler.ports import BranchMove
from sparklake.stores.objects.local.files import LocalFile
from sparklake.stores.objects.local.store import LocalStore
from sparklake.stores.postgres.branches import PostgresBranches
from sparklake.stores.postgres.connections import Connections

_READS = {
    "get": "gets",
    "get_many": "gets",
    "get_to_file": "gets",
    "paths": "gets",
    "find": "finds",
}
_WRITES = dict.fromkeys((name for name in vars(LocalStore) if name.startswith("put_")), "puts")


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count gets, finds and puts, one per file, of lakes that are opened in the block."""
    counts: Counter[str] = Counter()
    # Calls in other processes would not be seen.
    with ExitStack() as stack, mock.patch.dict(os.environ, SPARKLAKE_WORKERS="1"):
        for method, label in {**_READS, **_WRITES}.items():
            stack.enter_context(
                mock.patch.object(LocalStore, method, _noting(method, label, counts))
            )
        yield counts


def _noting(method: str, label: str, counts: Counter[str]) -> Any:
    call = getattr(LocalStore, method)

    def noting(store: LocalStore, *arguments: Any) -> Any:
        asked = arguments[0]
        counts[label] += 1 if isinstance(asked, str) else len(asked)
        return call(store, *arguments)

    return noting


@contextmanager
def noted_moves() -> Iterator[list[str]]:
    """Record the branches that this process tries to move."""
    names: list[str] = []
    move = PostgresBranches.move

    def noting(branches: PostgresBranches, wanted: BranchMove) -> None:
        names.append(wanted.branch)
        move(branches, wanted)

    with mock.patch.object(PostgresBranches, "move", noting):
        yield names


@contextmanager
def recorded_reads() -> Iterator[list[str]]:
    """Record the names of the files that local stores read, in order."""
    names: list[str] = []
    get, get_many, paths = LocalStore.get, LocalStore.get_many, LocalStore.paths

    def noting(store: LocalStore, key: str) -> bytes:
        names.append(key.rpartition("/")[2])
        return get(store, key)

    def noting_many(store: LocalStore, keys: Sequence[str]) -> Iterator[LocalFile]:
        for key in keys:
            names.append(key.rpartition("/")[2])
            yield from get_many(store, [key])

    def noting_paths(store: LocalStore, keys: Sequence[str]) -> list[str]:
        names.extend(key.rpartition("/")[2] for key in keys)
        return paths(store, keys)

    with (
        mock.patch.object(LocalStore, "get", noting),
        mock.patch.object(LocalStore, "get_many", noting_many),
        mock.patch.object(LocalStore, "paths", noting_paths),
    ):
        yield names


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


_MESSAGE = re.compile(r"^(?=\d{4}-\d\d-\d\d )", re.MULTILINE)


@contextmanager
def counted_trips() -> Iterator[list[str]]:
    """Record the statements of each round trip to Postgres, in libpq's own trace of messages.

    The list is complete after the block. A query and a sync are waited for, so each ends a trip.
    """
    trips: list[str] = []
    traced: set[psycopg.Connection[Any]] = set()
    wait = psycopg.Connection.wait

    with tempfile.TemporaryFile("r+", encoding="utf-8", errors="replace") as file:

        def tracing(connection: psycopg.Connection[Any], *arguments: Any, **options: Any) -> Any:
            if connection not in traced:
                traced.add(connection)
                connection.pgconn.trace(os.dup(file.fileno()))
            return wait(connection, *arguments, **options)

        with mock.patch.object(psycopg.Connection, "wait", tracing):
            yield trips
        for each in traced:
            if not each.closed:
                each.pgconn.untrace()
        file.seek(0)

        statements: list[str] = []
        for message in _MESSAGE.split(file.read()):
            fields = message.rstrip().split("\t", 4)
            if len(fields) < 4 or fields[1] != "F" or fields[3] not in ("Parse", "Query", "Sync"):
                continue
            kind = fields[3]
            if kind != "Sync":
                statements.append(" ".join(fields[4].split()))
            if kind != "Parse":
                trips.append("; ".join(statements))
                statements = []
