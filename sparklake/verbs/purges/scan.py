"""All records that name an object: trees of all commits, and staging of branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.ports import BranchState
from sparklake.graveler.ranges import RangeInfo
from sparklake.udfs.purges import Scan
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.publish import retry_lost_races
from sparklake.verbs.base.staging import StagedLayers

_RANGES_AT_ONCE = 16


def purge_scans(context: Context) -> Iterator[Scan]:
    """Yield each distinct range once, with its first commit, and all staged changes.

    Ranges of a head carry the name of its branch. Only lists of ranges are read.
    """
    return iter(retry_lost_races(lambda: _scans(context)))


def _scans(context: Context) -> list[Scan]:
    refs = context.refs.snapshot()
    live: dict[RangeId, str] = {}
    for state in refs.branches:
        tree = context.tree(context.graph.commit(state.commit_id))
        live.update((each.id, state.name) for each in tree.ranges)
    found: list[Scan] = []
    trees: set[MetaRangeId] = set()
    ranges: set[RangeId] = set()
    for order, commit in enumerate(refs.commits):
        if commit.meta_range_id in trees:
            continue
        trees.add(commit.meta_range_id)
        new = [each for each in context.tree(commit).ranges if each.id not in ranges]
        ranges.update(each.id for each in new)
        found += _packed(new, live, order, commit.id)
    for state in refs.branches:
        found += _staged(context, state, len(refs.commits))
    return found


def _packed(
    ranges: Iterable[RangeInfo], live: dict[RangeId, str], order: int, commit: str
) -> Iterator[Scan]:
    by_branch: dict[str, list[RangeInfo]] = {}
    for each in ranges:
        by_branch.setdefault(live.get(each.id, ""), []).append(each)
    for branch, some in by_branch.items():
        for start in range(0, len(some), _RANGES_AT_ONCE):
            part = tuple(some[start : start + _RANGES_AT_ONCE])
            yield Scan(part, (), order, commit, branch)


def _staged(context: Context, state: BranchState, order: int) -> Iterator[Scan]:
    for side in StagedLayers(context).sides(state.layers):
        if side.rows:
            yield Scan((), side.rows, order, "", state.name)
        for start in range(0, len(side.ranges), _RANGES_AT_ONCE):
            part = side.ranges[start : start + _RANGES_AT_ONCE]
            yield Scan(part, (), order, "", state.name)
