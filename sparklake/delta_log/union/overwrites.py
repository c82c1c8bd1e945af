"""The check for overwrites of the same rows by both sides, which have no union.

A union keeps all rows that either side added. So an overwrite comes before each commit of the other
side that added rows to the overwritten region: an append survives a concurrent overwrite. If no
order of the commits satisfies this, the union is refused. If a region was empty before, no file
conflicts, but each row would be there from both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sparklake.delta_log.actions import FileKey, Said
from sparklake.delta_log.delta_commits import DeltaCommit, UnmergeableTableError
from sparklake.delta_log.union.log_sides import LogSide
from sparklake.delta_log.union.regions import (
    Region,
    added_rows,
    may_be_of_partitions,
    partitions_of,
    region_of,
)


@dataclass(frozen=True, slots=True)
class _SideCommit:
    """A commit of a side: its overwritten region, and its added files that stay."""

    region: Region | None
    adds: Sequence[Said]


@dataclass(frozen=True, slots=True)
class _Order:
    """An overwrite that must precede a commit of the other side, by position."""

    overwrite: int
    added: int
    region: Region


def check_overwrites(
    source: LogSide,
    source_commits: Sequence[DeltaCommit],
    dest: LogSide,
    dest_commits: Sequence[DeltaCommit],
) -> None:
    """Raise UnmergeableTableError if both sides overwrote the same rows. Commits are in order."""
    steps = [
        _steps(side, commits) for side, commits in ((source, source_commits), (dest, dest_commits))
    ]
    if _found_circle(*steps) is None:
        return
    # Only here is it worth looking at the table's earlier files.
    steps = [
        _steps(side, commits, True)
        for side, commits in ((source, source_commits), (dest, dest_commits))
    ]
    region = _found_circle(*steps)
    if region is not None:
        raise UnmergeableTableError(f"both sides overwrote {region.name}")


def _steps(
    side: LogSide, commits: Sequence[DeltaCommit], by_files: bool = False
) -> list[_SideCommit]:
    """Return the steps of a side. With `by_files`, kept files refine the regions."""
    regions = [region_of(each, side.metadata) for each in commits]
    if not any(regions):
        regions = [None] * len(commits)
    elif by_files:
        regions = [
            partitions_of(each) if region and _is_of_partitions(side, each) else region
            for each, region in zip(commits, regions, strict=True)
        ]
    gone: set[str] = set()
    steps = []
    for commit, region in zip(commits[::-1], regions[::-1], strict=True):
        adds = [each for each in added_rows(commit) if FileKey.of(each).path not in gone]
        steps.append(_SideCommit(region, adds))
        if region is not None and region.ends_files:
            gone.update(key.path for key in commit.removes)
    return steps[::-1]


def _is_of_partitions(side: LogSide, commit: DeltaCommit) -> bool:
    """Return whether a commit replaced single partitions.

    It did if it kept a file that its writer had seen.
    """
    is_of_table = not (side.metadata or {}).get("partitionColumns")
    saw_all = commit.info.get("readVersion") == commit.version - 1
    if is_of_table or not saw_all or not may_be_of_partitions(commit):
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


def _found_circle(source: Sequence[_SideCommit], dest: Sequence[_SideCommit]) -> Region | None:
    """Return a region of two overwrites that must each precede the other; or None."""
    if not all(any(step.region for step in steps) for steps in (source, dest)):
        return None
    dest_orders = list(_orders(dest, source))
    for one in _orders(source, dest):
        for other in dest_orders:
            if other.added <= one.overwrite and one.added <= other.overwrite:
                return min(one.region, other.region, key=_is_all)
    return None


def _orders(overwriters: Sequence[_SideCommit], others: Sequence[_SideCommit]) -> Iterator[_Order]:
    """Yield each overwrite and the first commit that it must precede."""
    for place, step in enumerate(overwriters):
        region = step.region
        if region is not None:
            found = (at for at, other in enumerate(others) if any(map(region.may_have, other.adds)))
            yield from (_Order(place, at, region) for at in islice(found, 1))


def _is_all(region: Region) -> bool:
    return region.partitions is None and region.predicate is None
