"""File names of a Delta log, and keys of logs in trees."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.changes import BlockChanges

LOG_FOLDER = "_delta_log/"
"""The folder of a log, below its table's folder."""

LAST_CHECKPOINT = f"{LOG_FOLDER}_last_checkpoint"
"""The file that names a table's last checkpoint."""

_FOLDER = re.compile(rb"(?:.*?/)??_delta_log/", re.DOTALL)
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(
    r"(?P<version>[0-9]{20})\.checkpoint\."
    r"(?:(?P<classic>(?:[0-9]{10}\.(?P<parts>[0-9]{10})\.)?parquet)|(?:.*\.)?(?:parquet|json))"
)

File = TypeVar("File")


def commit_name(version: int) -> str:
    return f"{version:020}.json"


def commit_version(name: str) -> int | None:
    """Return the version of a commit file in a log, or None for another file."""
    found = _COMMIT.fullmatch(name)
    return int(found[1]) if found else None


def log_key(version: int) -> str:
    """Return the key of a version's commit, relative to the table."""
    return f"{LOG_FOLDER}{commit_name(version)}"


def checkpoint_key(version: int) -> str:
    """Return the key of a version's single-file checkpoint, relative to the table."""
    return f"{LOG_FOLDER}{version:020}.checkpoint.parquet"


def checksum_key(version: int) -> str:
    """Return the key of a version's checksum file, relative to the table."""
    return f"{LOG_FOLDER}{version:020}.crc"


def commit_key(folder: bytes, version: int) -> bytes:
    """Return the key of a version's commit in a tree, from its log folder."""
    return folder + commit_name(version).encode()


def log_folder(key: bytes) -> bytes | None:
    """Return the folder, with its slash, of a key's log, or None."""
    found = _FOLDER.match(key)
    return found[0] if found else None


def folder_of_log(folder: bytes) -> bytes:
    """Return the table folder of a log folder. '' is the root."""
    return folder.removesuffix(LOG_FOLDER.encode())


def table_name(folder: bytes) -> str:
    return folder_of_log(folder).removesuffix(b"/").decode(errors="replace") or "/"


@dataclass(frozen=True, slots=True)
class LogListing(Generic[File]):
    """The files of a log by version. A checkpoint may have several parts."""

    commits: Mapping[int, File]
    checkpoints: Mapping[int, Sequence[File]]

    @property
    def versions(self) -> set[int]:
        return {*self.commits, *self.checkpoints}


def log_listing(files: Iterable[tuple[str, File]], *, classic: bool = False) -> LogListing[File]:
    """Return the commits and checkpoints among files, given with their names.

    A checkpoint with missing parts is omitted. `classic` omits V2 checkpoints.
    """
    commits: dict[int, File] = {}
    parts: defaultdict[tuple[int, int], list[File]] = defaultdict(list)
    for name, file in files:
        version, found = commit_version(name), _CHECKPOINT.fullmatch(name)
        if version is not None:
            commits[version] = file
        elif found and (found["classic"] or not classic):
            parts[int(found["version"]), int(found["parts"] or 1)].append(file)
    # A writer that died may leave only some parts.
    whole = {version: found for (version, count), found in parts.items() if len(found) >= count}
    return LogListing(commits, whole)


MAX_TABLES = 10_000
"""The most Delta tables that a merge may change: the driver visits each of them."""


@dataclass(slots=True)
class ChangedLogs:
    """The folders of logs with differences between the sides of a merge."""

    folders: set[bytes] = field(default_factory=set)

    def observe(self, changes: BlockChanges) -> None:
        """Add the differences between two sides."""
        keys = changes.keys()
        inside = keys.filter(pc.match_substring(keys, LOG_FOLDER))
        self.folders.update(filter(None, map(log_folder, inside.to_pylist())))
        if len(self.folders) > MAX_TABLES:
            raise too_many_tables()

    def in_order(self) -> tuple[bytes, ...]:
        return tuple(sorted(self.folders))


def log_folders_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the folders of two sides' different logs, as keys."""
    logs = ChangedLogs()
    logs.observe(changes)
    return pa.record_batch([pa.array(logs.in_order(), pa.binary())], names=["key"])


def too_many_tables() -> InvalidInputError:
    return InvalidInputError(
        f"more than {MAX_TABLES:,} Delta tables have changed. Merge some paths at a time, or use "
        "--no-delta to merge logs file by file"
    )
