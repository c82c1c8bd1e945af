"""What an engine is: a way to run task bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa

Body = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Is a generator from batches to batches that may run twice; it is shipped to executors."""

Source = Any
"""Is a pyarrow Table, an iterable of record batches, or a Spark DataFrame."""


class Runner(Protocol):
    """Runs task bodies."""

    @property
    def name(self) -> str:
        """Returns what `--engine` calls it."""

    def collect(self, body: Body, work: pa.Table) -> list[pa.RecordBatch]:
        """Runs a body over rows of work, in parallel where it can; for small results.

        Batches of one row of work stay in order, those of several need not.
        """

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Runs a body over rows of work; yields what it yields in the order of the rows."""

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Runs `encode` over a source, sorts what it yields by key, and runs `body` over that.

        `encode` yields RECORD_SCHEMA. `body` sees keys in ascending order; where there are several
        partitions, each is an interval of keys.
        """
