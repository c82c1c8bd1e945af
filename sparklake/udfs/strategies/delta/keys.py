"""Which keys are of a Delta table's log, and which tables the tasks of a merge have met."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidInputError
from sparklake.graveler.blocks import Block
from sparklake.graveler.columns import Mask

MAX_TABLES = 10_000
"""How many Delta tables a merge may change: the driver looks at each of them."""

LOG_NAME = "_delta_log"
"""Is what the folder of a log is called, in the folder of its table."""

_NAME = b"_delta_log/"
_FOLDER = re.compile(rb"(?:.*?/)??_delta_log/", re.DOTALL)
_COMMIT = re.compile(rb"([0-9]{20})\.json")


def log_folder(key: bytes) -> bytes | None:
    """Returns the folder of the log that a key is of, with its slash."""
    found = _FOLDER.match(key)
    return found[0] if found else None


def commit_key(folder: bytes, version: int) -> bytes:
    """Returns the key of a commit of a table."""
    return folder + b"%020d.json" % version


def commit_version(folder: bytes, key: bytes) -> int | None:
    """Returns the version whose commit a key of a log is."""
    found = _COMMIT.fullmatch(key[len(folder) :])
    return int(found[1]) if found else None


def table_name(folder: bytes) -> str:
    """Returns what a table is called whose log is in a folder."""
    return folder.removesuffix(_NAME).removesuffix(b"/").decode(errors="replace") or "/"


@dataclass(slots=True)
class TouchedLogs:
    """Collects the folders of the logs of which a stream of edits changes something."""

    folders: set[bytes] = field(default_factory=set)

    def note(self, block: Block, dropped: Mask, added: Block) -> None:
        """Takes in that some records of a block give way to others."""
        gone = np.flatnonzero(dropped)
        if len(gone):
            self.add(block.take(gone).key_array())
        if len(added):
            self.add(added.key_array())

    def add(self, keys: pa.BinaryArray) -> None:
        """Takes in keys that are changed; raises InvalidInputError for too many tables."""
        inside = keys.filter(pc.match_substring(keys, _NAME))
        for folder in filter(None, map(log_folder, inside.to_pylist())):
            self.take(folder)

    def take(self, folder: bytes) -> None:
        """Takes in a folder; raises InvalidInputError for too many tables."""
        self.folders.add(folder)
        if len(self.folders) > MAX_TABLES:
            raise too_many_tables()


def too_many_tables() -> InvalidInputError:
    """Returns the error of a merge that changes too many Delta tables at a time."""
    return InvalidInputError(
        f"more than {MAX_TABLES:,} Delta tables are changed; nothing has moved. Merge some paths "
        "at a time, or without their logs being looked at: --no-delta"
    )
