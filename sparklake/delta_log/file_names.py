"""File names and tree keys of Delta logs."""

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
LAST_CHECKPOINT = f"{LOG_FOLDER}_last_checkpoint"

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
    match = _COMMIT.fullmatch(name)
    return int(match[1]) if match else None


def log_key(version: int) -> str:
    """Return the key of a commit, relative to the table."""
    return f"{LOG_FOLDER}{commit_name(version)}"


def checkpoint_key(version: int) -> str:
    return f"{LOG_FOLDER}{version:020}.checkpoint.parquet"


def checksum_key(version: int) -> str:
    return f"{LOG_FOLDER}{version:020}.crc"


def commit_key(folder: bytes, version: int) -> bytes:
    """Return the key of a commit in a tree, from its log folder."""
    return folder + commit_name(version).encode()


def log_folder(key: bytes) -> bytes | None:
    """Return the log folder of a key, with a slash, or None."""
    match = _FOLDER.match(key)
    return match[0] if match else None


def folder_of_log(folder: bytes) -> bytes:
    """Return the table folder of a log folder. '' is the root."""
    return folder.removesuffix(LOG_FOLDER.encode())


def table_name(folder: bytes) -> str:
    return folder_of_log(folder).removesuffix(b"/").decode(errors="replace") or "/"


@dataclass(frozen=True, slots=True)
class LogListing(Generic[File]):
    commits: Mapping[int, File]
    checkpoints: Mapping[int, Sequence[File]]

    @property
    def versions(self) -> set[int]:
        return {*self.commits, *self.checkpoints}


def log_listing(files: Iterable[tuple[str, File]], *, classic: bool = False) -> LogListing[File]:
    """Return the commits and complete checkpoints. `classic` omits V2 checkpoints."""
    commits: dict[int, File] = {}
    parts: defaultdict[tuple[int, int], list[File]] = defaultdict(list)
    for name, file in files:
        version, match = commit_version(name), _CHECKPOINT.fullmatch(name)
        if version is not None:
            commits[version] = file
        elif match and (match["classic"] or not classic):
            parts[int(match["version"]), int(match["parts"] or 1)].append(file)
    # A writer that died may leave only some parts.
    whole = {version: some for (version, count), some in parts.items() if len(some) >= count}
    return LogListing(commits, whole)


MAX_TABLES = 10_000
"""The maximum number of Delta tables in a merge: the driver visits each of them."""


@dataclass(slots=True)
class ChangedLogs:
    folders: set[bytes] = field(default_factory=set)

    def observe(self, changes: BlockChanges) -> None:
        keys = changes.keys()
        inside = keys.filter(pc.match_substring(keys, LOG_FOLDER))
        self.folders.update(filter(None, map(log_folder, inside.to_pylist())))
        if len(self.folders) > MAX_TABLES:
            raise too_many_tables()

    def in_order(self) -> tuple[bytes, ...]:
        return tuple(sorted(self.folders))


def log_folders_batch(changes: BlockChanges) -> pa.RecordBatch:
    logs = ChangedLogs()
    logs.observe(changes)
    return pa.record_batch([pa.array(logs.in_order(), pa.binary())], names=["key"])


def too_many_tables() -> InvalidInputError:
    return InvalidInputError(
        f"more than {MAX_TABLES:,} Delta tables have changed. Merge selected paths at a time, or "
        "use "
        "--no-delta to merge logs file by file"
    )
