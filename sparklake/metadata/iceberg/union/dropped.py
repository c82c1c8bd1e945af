"""Snapshots dropped when a merge selects one side of a whole table."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.metadata.iceberg.entries import Entry, FileKey
from sparklake.metadata.iceberg.manifests import Content
from sparklake.metadata.iceberg.union.snapshots import IcebergCommit
from sparklake.metadata.union.commits import commits_but, origins
from sparklake.metadata.union.dropped import DroppedCommits


def describe_dropped(
    side: str,
    loser: Sequence[IcebergCommit],
    winner: Sequence[IcebergCommit],
    base: Sequence[IcebergCommit],
) -> DroppedCommits:
    """Describe the loser's snapshots missing from both the winner and base."""
    own = commits_but(commits_but(loser, origins(base)), origins(winner))
    added, removed = net_changes(own)
    data = [each for each in added.values() if each.file.content is Content.DATA]
    deleted = sum(
        each.file.records for each in added.values() if each.file.content is not Content.DATA
    )
    rows = sum(each.file.records for each in data)
    return DroppedCommits(side, len(own), len(added), None if deleted else rows, len(removed))


def net_changes(
    commits: Sequence[IcebergCommit],
) -> tuple[dict[FileKey, Entry], dict[FileKey, Entry]]:
    """Return the files that consecutive commits added and removed together."""
    added, removed = dict[FileKey, Entry](), dict[FileKey, Entry]()
    for commit in commits:
        for key, entry in commit.removed.items():
            if added.pop(key, None) is None:
                removed[key] = entry
        for key, entry in commit.added.items():
            if removed.pop(key, None) is None:
                added[key] = entry
    return added, removed


def files_of_winner(winner: Sequence[IcebergCommit], loser: Sequence[IcebergCommit]) -> list[str]:
    """Return the paths of the winner's files that the loser lacks or removed."""
    added, removed = net_changes(winner)
    _, lost = net_changes(loser)
    return [each.path for each in {*added, *(lost.keys() - removed.keys())}]
