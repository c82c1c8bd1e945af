"""File names and tree keys of Delta logs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparklake.errors import InvalidInputError
from sparklake.metadata.formats import MetadataFiles

LOG_FOLDER = "_delta_log/"
STAGED_COMMITS = f"{LOG_FOLDER}_staged_commits/"
"""The folder of commits that a catalog accepts. Only catalog-managed tables have one."""
LAST_CHECKPOINT = f"{LOG_FOLDER}_last_checkpoint"

DELTA = MetadataFiles(
    name="Delta",
    folder=LOG_FOLDER,
    pattern=r"^[0-9]{20}\.(json|checkpoint\.)",
    changed=b"(^|/)_delta_log/",
    samples=(f"{0:020}.json", "_last_checkpoint"),
    nests=True,
    has_rules=True,
    grows=True,
    verbs="sparklake.verbs.delta.format",
)

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
"""The maximum number of tables in a merge: the driver visits each of them."""


def too_many_tables() -> InvalidInputError:
    return InvalidInputError(
        f"more than {MAX_TABLES:,} tables have changed. Merge selected paths at a time, or use "
        "--no-table-unions to merge Delta logs file by file"
    )
