"""File names and tree keys of Delta logs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.changes import BlockChanges

LOG_FOLDER = "_delta_log/"
STAGED_COMMITS = f"{LOG_FOLDER}_staged_commits/"
"""The folder of commits that a catalog accepts. Only catalog-managed tables have one."""
LAST_CHECKPOINT = f"{LOG_FOLDER}_last_checkpoint"

_FOLDER = re.compile(rb"(?:.*?/)??_delta_log/", re.DOTALL)
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(
    r"(?P<version>[0-9]{20})\.checkpoint\."
    r"(?:(?:[0-9]{10}\.(?P<parts>[0-9]{10})\.)?parquet|(?P<id>[^.]+)\.(?:parquet|json))"
)

File = TypeVar("File")


def commit_name(version: int) -> str:
    return f"{version:020}.json"


def commit_version(name: str) -> int | None:
    match = _COMMIT.fullmatch(name)
    return int(match[1]) if match else None


def is_log_file(name: str) -> bool:
    """Return whether a log file is a commit or a checkpoint part."""
    return bool(_COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name))


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


def log_listing(files: Iterable[tuple[str, File]]) -> LogListing[File]:
    """Return the commits, and one complete checkpoint of each version that has any."""
    commits: dict[int, File] = {}
    parts: defaultdict[tuple[int, int, str], list[File]] = defaultdict(list)
    for name, file in files:
        version, match = commit_version(name), _CHECKPOINT.fullmatch(name)
        if version is not None:
            commits[version] = file
        elif match:
            # The id of a V2 checkpoint sorts after the empty one of a classic checkpoint.
            count = int(match["parts"] or 1)
            parts[int(match["version"]), count, match["id"] or ""].append(file)
    # A writer that died may leave only some parts.
    whole = {key: some for key, some in parts.items() if len(some) >= key[1]}
    return LogListing(commits, {key[0]: whole[key] for key in sorted(whole, reverse=True)})


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The names of a log's files for one version: since a checkpoint, or all.

    Without a log, `version` is -1. `missing` is the first missing commit.
    """

    version: int
    checkpoint: tuple[str, ...]
    commits: tuple[str, ...]
    missing: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.checkpoint, *self.commits)


def files_of_version(
    log: LogListing[str],
    version: int | None = None,
    *,
    history: bool = False,
    is_readable: Callable[[Sequence[str]], bool] = bool,
) -> LogFiles:
    """Return the files since the latest checkpoint, or with `history` all that exist.

    Unreadable checkpoints are skipped if the log has a readable one, or all commits.
    """
    last = max(log.versions, default=-1) if version is None else version
    starts = sorted((each for each in log.checkpoints if each <= last), reverse=not history)
    missing, unreadable = None, None
    for start in [-1, *starts] if history else [*starts, -1]:
        gap = next((each for each in range(start + 1, last + 1) if each not in log.commits), None)
        if gap is None:
            commits = (name for at, name in sorted(log.commits.items()) if start <= at <= last)
            files = LogFiles(last, tuple(log.checkpoints.get(start, ())), tuple(commits))
            if start < 0 or is_readable(files.checkpoint):
                return files
            unreadable = unreadable or files
        missing = gap if missing is None else missing
    return unreadable or LogFiles(last, (), (), missing)


MAX_TABLES = 10_000
"""The maximum number of Delta tables in a merge: the driver visits each of them."""


@dataclass(slots=True)
class ChangedLogs:
    folders: set[bytes] = field(default_factory=set)

    def observe(self, keys: pa.BinaryArray) -> None:
        inside = keys.filter(pc.match_substring(keys, LOG_FOLDER))
        self.folders.update(filter(None, map(log_folder, inside.to_pylist())))
        if len(self.folders) > MAX_TABLES:
            raise too_many_tables()

    def in_order(self) -> tuple[bytes, ...]:
        return tuple(sorted(self.folders))


def log_folders_batch(changes: BlockChanges) -> pa.RecordBatch:
    logs = ChangedLogs()
    logs.observe(changes.keys())
    return pa.record_batch([pa.array(logs.in_order(), pa.binary())], names=["key"])


def too_many_tables() -> InvalidInputError:
    return InvalidInputError(
        f"more than {MAX_TABLES:,} tables have changed. Merge selected paths at a time, or use "
        "--no-table-unions to merge Delta logs file by file"
    )
