"""Whether two sides overwrote the same rows, so that no order of their commits gives the union.

In a union all rows stay that either side added. So an overwrite comes before each commit of the
other side that added rows to what it overwrites: an append beside an overwrite survives it. Where
the commits of each side then have no order left, the union is refused. If a region was empty
before, no file is in the way, but each row would be there from both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sparklake.delta_log.actions import FileKey, Said
from sparklake.delta_log.commits import DeltaCommit, NotUnitedError
from sparklake.delta_log.union.regions import (
    Region,
    added_rows,
    may_be_of_partitions,
    partitions_of,
    region_of,
)
from sparklake.delta_log.union.sides import LogSide


@dataclass(frozen=True, slots=True)
class _Step:
    """A commit of a side: what it overwrites, and the files with rows of it that stay."""

    region: Region | None
    adds: Sequence[Said]


@dataclass(frozen=True, slots=True)
class _Order:
    """An overwrite of one side that comes before a commit of the other one, by their places."""

    overwrite: int
    added: int
    region: Region


def check_overwrites(
    source: LogSide, fresh: Sequence[DeltaCommit], dest: LogSide, theirs: Sequence[DeltaCommit]
) -> None:
    """Raise NotUnitedError where both sides overwrote the same rows; the commits are in order."""
    steps = [_steps(side, commits) for side, commits in ((source, fresh), (dest, theirs))]
    if _found_circle(*steps) is None:
        return
    # Only now is it worth to look at what was in the table.
    steps = [_steps(side, commits, True) for side, commits in ((source, fresh), (dest, theirs))]
    region = _found_circle(*steps)
    if region is not None:
        raise NotUnitedError(f"both sides overwrote {region.name}")


def _steps(side: LogSide, commits: Sequence[DeltaCommit], by_files: bool = False) -> list[_Step]:
    """Return the steps of a side. With `by_files`, files that stay tell what was overwritten."""
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
        steps.append(_Step(region, adds))
        if region is not None and region.ends_files:
            gone.update(key.path for key in commit.removes)
    return steps[::-1]


def _is_of_partitions(side: LogSide, commit: DeltaCommit) -> bool:
    """Tell whether a commit replaced single partitions: a file stayed that its writer has seen."""
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


def _found_circle(source: Sequence[_Step], dest: Sequence[_Step]) -> Region | None:
    """Return a region of two overwrites each of which would come before the other; or None."""
    if not all(any(step.region for step in steps) for steps in (source, dest)):
        return None
    theirs = list(_orders(dest, source))
    for one in _orders(source, dest):
        for other in theirs:
            if other.added <= one.overwrite and one.added <= other.overwrite:
                return min(one.region, other.region, key=_is_all)
    return None


def _orders(overwriters: Sequence[_Step], others: Sequence[_Step]) -> Iterator[_Order]:
    """Yield for each overwrite the first commit that it comes before: others follow that one."""
    for place, step in enumerate(overwriters):
        region = step.region
        if region is not None:
            found = (at for at, other in enumerate(others) if any(map(region.may_have, other.adds)))
            yield from (_Order(place, at, region) for at in islice(found, 1))


def _is_all(region: Region) -> bool:
    return region.partitions is None and region.predicate is None
