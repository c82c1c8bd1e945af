"""Conflicting overwrites of the same rows by both sides."""

from __future__ import annotations

from sparklake.metadata.delta.actions import FileKey
from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.delta.union.log_sides import LogSide
from sparklake.metadata.delta.union.regions import (
    added_rows,
    may_be_of_partitions,
    partitions_of,
    region_of,
)
from sparklake.metadata.delta.union.schemas import Metadata, columns_of, mapping_mode, with_fields
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.metadata.union.orders import SideCommit, find_circle


def check_overwrites(source: LogSide, dest: LogSide) -> None:
    """Reject overwrites of the same rows by both sides. Commits are in order.

    A union keeps all added rows. So an overwrite must precede each commit of the other side that
    added rows to its region, and some order of all commits must satisfy this.
    """
    region = find_circle(_steps(source), _steps(dest))
    if region is not None:
        # Only here is it worth looking up the table's earlier files.
        region = find_circle(_steps(source, by_files=True), _steps(dest, by_files=True))
    if region is not None:
        raise UnmergeableTableError(f"both sides overwrote {region.name}")


def _steps(side: LogSide, *, by_files: bool = False) -> list[SideCommit]:
    """Return the steps of a side. With `by_files`, retained files refine the regions."""
    commits = side.own
    metadata = _metadata_for_predicates(side) if commits else side.metadata
    regions = [region_of(each, metadata) for each in commits]
    if not any(regions):
        regions = [None] * len(commits)
    elif by_files:
        regions = [
            partitions_of(each) if region and _is_of_partitions(side, each) else region
            for each, region in zip(commits, regions, strict=True)
        ]
    removed: set[str] = set()
    steps = []
    for commit, region in zip(commits[::-1], regions[::-1], strict=True):
        adds = [each for each in added_rows(commit) if FileKey.of(each).path not in removed]
        steps.append(SideCommit(region, adds))
        if region is not None and region.ends_files:
            removed.update(key.path for key in commit.removes)
    return steps[::-1]


def _metadata_for_predicates(side: LogSide) -> Metadata | None:
    """Return a side's metadata, without columns if the side gave the name of one to another."""
    if mapping_mode(side.metadata or {}) == "none":
        return side.metadata
    known = [side.start().get("metaData"), *(each.last("metaData") for each in side.commits)]
    names: dict[str, str] = {}
    for metadata in (*filter(None, known), side.metadata or {}):
        for name, column in columns_of(metadata).items():
            if names.setdefault(column["name"].lower(), name) != name:
                return with_fields(metadata, ())
    return side.metadata


def _is_of_partitions(side: LogSide, commit: DeltaCommit) -> bool:
    """Return whether a commit replaced single partitions: it retained a file of its snapshot."""
    has_partitions = bool((side.metadata or {}).get("partitionColumns"))
    read_all = commit.info.get("readVersion") == commit.version - 1
    if not (has_partitions and read_all and may_be_of_partitions(commit)):
        return False
    state: dict[str, bool] = {}
    for each in side.commits:
        if each.version >= commit.version:
            break
        state.update((key.path, False) for key in each.removes)
        state.update((key.path, True) for key in each.adds)
    removed = {key.path for key in commit.removes}
    if any(is_live and path not in removed for path, is_live in state.items()):
        return True
    return side.had_file_beside(removed | state.keys())
