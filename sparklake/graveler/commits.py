"""Commits and their ids, by lakeFS's formula (`pkg/ident`): lakeFS can restore a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from struct import Struct

from sparklake._html import html_table
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId, MetaRangeId
from sparklake.graveler.times import datetime_of

FIRST_GENERATION = 1
_LAST_GENERATION = 2**30
"""The highest generation of a dump. It leaves room for as many commits in lakeFS's 32 bits."""

COMMITS_AT_ONCE = 10_000  # The most commits in one batch or query: a few megabytes.

_INT64 = Struct(">2sq")
_SHOWN_COLUMNS = ("commit", "date", "committer", "message", "parents", "metadata")
STRATEGY_METADATA_KEY = ".lakefs.merge.strategy"
MERGED_METADATA_KEY = "sparklake.merge.tables"
WINNERS_METADATA_KEY = "sparklake.merge.winners"
ROWS_METADATA_KEY = "sparklake.merge.rows"
DROPPED_METADATA_KEY = "sparklake.merge.dropped"


_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{64})[.]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a repository. `creation_date` is in unix seconds."""

    id: CommitId
    parents: tuple[CommitId, ...]
    committer: str
    message: str
    creation_date: int
    meta_range_id: MetaRangeId
    metadata: Mapping[str, str] = field(default_factory=dict)
    generation: int = FIRST_GENERATION

    def _repr_html_(self) -> str:
        return commits_html(f"commit {self.id[:12]}", [self])


def reverting_line(commit_id: CommitId) -> str:
    """Return the line of a revert's message that identifies the undone commit, as in Git."""
    return f"This reverts commit {commit_id}."


def reverted_commit(commit: Commit) -> str | None:
    """Return the id of the undone commit from a revert's message."""
    match = _REVERTED.search(commit.message)
    return None if match is None else match[1]


def commits_html(caption: str, commits: Iterable[Commit]) -> str:
    rows = (
        {
            "commit": each.id[:12],
            "date": datetime_of(each.creation_date),
            "committer": each.committer,
            "message": each.message,
            "parents": ", ".join(parent[:12] for parent in each.parents),
            "metadata": ", ".join(f"{name}={value}" for name, value in each.metadata.items()),
        }
        for each in commits
    )
    return html_table(caption, _SHOWN_COLUMNS, rows)


def is_generation(generation: int, parents: Iterable[int]) -> bool:
    """Return whether a generation exceeds those of all parents.

    The difference may exceed one: in lakeFS, a squash merge counts its source, which is not a
    parent.
    """
    return max(parents, default=0) < generation <= _LAST_GENERATION


def new_commit(
    *,
    parents: Sequence[Commit],
    committer: str,
    message: str,
    creation_date: int,
    meta_range_id: MetaRangeId,
    metadata: Mapping[str, str] | None = None,
) -> Commit:
    """Return a commit with its id, one generation above its highest parent."""
    parent_ids = tuple(parent.id for parent in parents)
    labels = dict(sorted((metadata or {}).items()))
    return Commit(
        id=commit_id(parent_ids, committer, message, creation_date, meta_range_id, labels),
        parents=parent_ids,
        committer=committer,
        message=message,
        creation_date=creation_date,
        meta_range_id=meta_range_id,
        metadata=labels,
        generation=1 + max((parent.generation for parent in parents), default=0),
    )


def first_commit(creation_date: int) -> Commit:
    return new_commit(
        parents=(),
        committer="",
        message="Repository created",
        creation_date=creation_date,
        meta_range_id=EMPTY_META_RANGE,
    )


def commit_id(
    parents: Sequence[str],
    committer: str,
    message: str,
    creation_date: int,
    meta_range_id: str,
    metadata: Mapping[str, str],
) -> CommitId:
    listed = b"\x03" + hash_int(len(parents)) + b"".join(map(hash_string, parents))
    parts = (
        hash_string("commit:v1"),
        hash_string(committer),
        hash_string(message),
        hash_string(meta_range_id),
        hash_int(creation_date),
        hash_map(metadata),
        b"\x05\x00" + _sized(sha256(listed).digest()),
    )
    return CommitId(sha256(b"".join(parts)).hexdigest())


def computed_id(commit: Commit) -> CommitId:
    """Compute the id from a commit's content."""
    return commit_id(
        commit.parents,
        commit.committer,
        commit.message,
        commit.creation_date,
        commit.meta_range_id,
        commit.metadata,
    )


def hash_int(value: int) -> bytes:
    return _INT64.pack(b"\x02\x08", value)


def hash_string(text: str) -> bytes:
    return b"\x01" + _sized(text.encode())


def hash_map(mapping: Mapping[str, str]) -> bytes:
    """Return lakeFS's hash input for a string map, in the byte order of the keys."""
    items = sorted(mapping.items(), key=lambda item: item[0].encode())
    pairs = b"".join(hash_string(key) + hash_string(value) for key, value in items)
    return b"\x04" + hash_int(len(items)) + pairs


def _sized(raw: bytes) -> bytes:
    return hash_int(len(raw)) + raw
