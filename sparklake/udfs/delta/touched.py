"""Which Delta tables the tasks of a merge have met."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra import Changes
from sparklake.udfs.delta.names import LOG_FOLDER, log_folder

MAX_TABLES = 10_000
"""How many Delta tables a merge may change: the driver looks at each of them."""


@dataclass(slots=True)
class TouchedLogs:
    """Collects the folders of the logs in which the sides of a merge differ."""

    folders: set[bytes] = field(default_factory=set)

    def see(self, changes: Changes) -> None:
        """Takes in what differs between two sides; raises InvalidInputError for too many tables."""
        keys = changes.keys()
        inside = keys.filter(pc.match_substring(keys, LOG_FOLDER))
        self.folders.update(filter(None, map(log_folder, inside.to_pylist())))
        if len(self.folders) > MAX_TABLES:
            raise too_many_tables()

    def in_order(self) -> tuple[bytes, ...]:
        """Returns the folders in the order of keys."""
        return tuple(sorted(self.folders))


def log_folders_batch(changes: Changes) -> pa.RecordBatch:
    """Return the folders of the logs in which two sides differ, as keys."""
    touched = TouchedLogs()
    touched.see(changes)
    return pa.record_batch([pa.array(touched.in_order(), pa.binary())], names=["key"])


def too_many_tables() -> InvalidInputError:
    """Returns the error of a merge that changes too many Delta tables at a time."""
    return InvalidInputError(
        f"more than {MAX_TABLES:,} Delta tables are changed; nothing has moved. Merge some paths "
        "at a time, or without their logs being looked at: --no-delta"
    )
