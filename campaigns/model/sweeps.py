"""The collections, purges and dumps of the model, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from campaigns.model.lake import (
    DONE,
    NEXT,
    REFUSED,
    STAY,
    Guards,
    Lake,
    Result,
    Step,
    Table,
    Verb,
    View,
    end,
    seal_all,
    visible_objects,
    with_bases,
)


class _Sweep(NamedTuple):
    """The lists of a collection: objects, tables, referenced objects, expired commits."""

    objects: frozenset[str] = frozenset()
    tables: frozenset[Table] = frozenset()
    in_use: frozenset[str] = frozenset()
    expired: frozenset[str] = frozenset()


# --- steps of both kinds of collections -----------------------------------------------------------


def _list_objects(lake: Lake, view: View, name: str) -> Result:
    return lake, _Sweep(*view)._replace(objects=lake.objects), NEXT


def _open_sweep(lake: Lake, view: View, name: str) -> Result:
    return lake._replace(markers=lake.markers | {name}), view, NEXT


def _sweep_objects(lake: Lake, view: View, name: str) -> Result:
    """Delete one object. The sweep may be suspended, or its request may be late."""
    sweep = _Sweep(*view)
    garbage = sorted(sweep.objects - sweep.in_use)
    if not garbage:
        return lake, (), NEXT
    lake = lake._replace(objects=lake.objects - {garbage[0]})
    return lake, sweep._replace(objects=sweep.objects - {garbage[0]}), STAY


def _close_sweep(lake: Lake, view: View, name: str) -> Result:
    lock = "" if lake.lock == "gc" else lake.lock
    markers = lake.markers - {name}
    return lake._replace(markers=markers, candidates=frozenset(), lock=lock), view, NEXT


def _named_objects(guards: Guards, lake: Lake, expired: frozenset[str]) -> frozenset[str]:
    retained = (table for name, table, _ in lake.commits if name not in expired)
    addresses = {at for table in retained for *_, at in lake.files(table) or ()}
    if guards.staged_objects_are_named:
        for _, branch in lake.branches:
            layers = branch.layers if guards.covered_layers_are_named else branch.layers[-1:]
            addresses |= {at for layer in layers for *_, at in layer.objects}
    return frozenset(addresses)


# --- collections of objects -----------------------------------------------------------------------


def collect(guards: Guards) -> Verb:
    """List, mark the sweep as open, raise the fence, claim the list, sweep, remove the marker.

    Sweeps of others are ended first. They may go on, because Postgres lost their locks.
    """
    own = _Collection(guards)

    def read_names(lake: Lake, view: View, name: str) -> Result:
        in_use = _named_objects(guards, lake, lake.treeless)
        return lake, _Sweep(*view)._replace(in_use=in_use), NEXT

    def raise_fence(lake: Lake, view: View, name: str) -> Result:
        lake = _fenced(guards, lake)
        if guards.names_are_read_with_the_fence:
            return read_names(lake, view, name)
        return lake, view, NEXT

    steps: list[Step] = [_list_objects, own.open, raise_fence]
    if not guards.names_are_read_with_the_fence:
        steps = [_list_objects, read_names, own.open, raise_fence]
    if not guards.marker_is_set_before_the_fence:
        steps = [_list_objects, raise_fence, own.open]
    if not guards.objects_are_listed_before_the_fence:
        steps = [_list_objects, own.open, raise_fence, _list_objects]
    steps = [own.end_others, *steps, own.claim]
    if guards.marker_is_kept_until_the_end:
        return [*steps, _sweep_objects, own.close, end]
    return [*steps, own.close, _sweep_objects, end]


_SHARED = "the marker of all sweeps"


@dataclass(frozen=True, slots=True)
class _Collection:
    """The guarded steps of a collection."""

    guards: Guards

    def open(self, lake: Lake, view: View, name: str) -> Result:
        return _open_sweep(lake, view, self._marker(name))

    def close(self, lake: Lake, view: View, name: str) -> Result:
        return _close_sweep(lake, view, self._marker(name))

    def claim(self, lake: Lake, view: View, name: str) -> Result:
        sweep, claims = _Sweep(*view), dict(lake.claims)
        if self.guards.lists_are_claimed_once and name in claims:
            return lake, (), REFUSED
        claims[name] = sweep.objects - sweep.in_use
        return lake._replace(claims=frozenset(claims.items())), sweep, NEXT

    def end_others(self, lake: Lake, view: View, name: str) -> Result:
        """End the sweeps of others: delete the claimed objects, then remove the marker."""
        if not view:
            if not lake.markers:
                return lake, (), NEXT
            marker, claims = min(lake.markers), dict(lake.claims)
            claimed = claims.setdefault(marker, None) or frozenset()
            if self.guards.lists_are_claimed_once:
                lake = lake._replace(claims=frozenset(claims.items()))
            if not self.guards.claimed_lists_are_completed:
                claimed = frozenset()
            return lake, (marker, *sorted(claimed)), STAY
        marker, *garbage = view
        if garbage:
            lake = lake._replace(objects=lake.objects - {garbage[0]})
            return lake, (marker, *garbage[1:]), STAY
        return _close_sweep(lake, (), marker)[0], (), STAY

    def _marker(self, name: str) -> str:
        return name if self.guards.sweeps_have_their_own_markers else _SHARED


def _fenced(guards: Guards, lake: Lake) -> Lake:
    return seal_all(lake)._replace(fence=lake.fence + guards.fence_is_raised)


# --- collections of trees -------------------------------------------------------------------------


def collect_trees(guards: Guards, *, dies: bool = False) -> Verb:
    """Delete tables and objects of expired commits: all commits but heads and bases.

    A collection that dies deletes one table first, and leaves its marker.
    """
    own = _TreeCollection(guards)
    first: list[Step] = [own.begin, _list_objects, own.list_tables]
    steps = [*first, _announce, _open_sweep, own.raise_fence]
    if not guards.candidates_are_announced_before_the_marker:
        steps = [*first, _open_sweep, own.raise_fence, _announce]
    if not guards.marker_is_set_before_the_fence:
        steps = [*first, _announce, own.raise_fence, _open_sweep]
    if not guards.expiry_is_marked_with_the_fence:
        steps.append(_mark_expired)
    if dies:
        return [*steps, _sweep_one_table, end]
    if not guards.marker_is_kept_until_the_end:
        return [*steps, _count, _close_sweep, _sweep_tables, _sweep_objects, end]
    last: list[Step] = [_count, _close_sweep]
    if not guards.sweep_is_counted_before_the_marker_is_removed:
        last.reverse()
    return [*steps, _sweep_tables, _sweep_objects, *last, end]


@dataclass(frozen=True, slots=True)
class _TreeCollection:
    """The guarded steps of a tree collection."""

    guards: Guards

    def begin(self, lake: Lake, _: View, name: str) -> Result:
        if lake.lock and self.guards.dumps_exclude_sweeps:
            return lake, (), REFUSED
        for marker in lake.markers:  # An earlier collection has died.
            sweeps = lake.sweeps + self.guards.interrupted_sweep_is_counted
            lake = _close_sweep(lake._replace(sweeps=sweeps), (), marker)[0]
        return lake._replace(lock="gc"), _Sweep(), NEXT

    def list_tables(self, lake: Lake, view: View, name: str) -> Result:
        tables = frozenset(table for table, _ in lake.ranges)
        expired = lake.treeless | _expiring(self.guards, lake)
        tables -= _named_tables(self.guards, lake, expired)
        return lake, _Sweep(*view)._replace(tables=tables), NEXT

    def raise_fence(self, lake: Lake, view: View, name: str) -> Result:
        guards, sweep = self.guards, _Sweep(*view)
        lake = _fenced(guards, lake)
        expired = lake.treeless | _expiring(guards, lake)
        if guards.tree_files_are_named_again_at_the_fence:
            sweep = sweep._replace(tables=sweep.tables - _named_tables(guards, lake, expired))
        in_use = _named_objects(guards, lake, expired)
        if guards.expiry_is_marked_with_the_fence:
            lake = lake._replace(treeless=expired)
        return lake, sweep._replace(in_use=in_use, expired=expired), NEXT


def _announce(lake: Lake, view: View, name: str) -> Result:
    return lake._replace(candidates=_Sweep(*view).tables), view, NEXT


def _mark_expired(lake: Lake, view: View, name: str) -> Result:
    return lake._replace(treeless=lake.treeless | _Sweep(*view).expired), view, NEXT


def _count(lake: Lake, view: View, name: str) -> Result:
    return lake._replace(sweeps=lake.sweeps + 1), view, NEXT


def _expiring(guards: Guards, lake: Lake) -> frozenset[str]:
    """Return the expired commits of a repository."""
    retained = lake.heads
    if guards.bases_keep_their_trees:
        retained = with_bases(lake.commits, retained)
    return frozenset(name for name, *_ in lake.commits) - retained


def _named_tables(guards: Guards, lake: Lake, expired: frozenset[str]) -> frozenset[Table]:
    """Return the referenced tables, and their earlier generations."""
    in_use = {table for name, table, _ in lake.commits if name not in expired}
    if guards.dumped_trees_are_named:
        in_use |= {lake.table(each) for each in lake.dump}
    return frozenset((tree, each) for tree, last in in_use for each in range(last + 1))


def _sweep_tables(lake: Lake, view: View, name: str) -> Result:
    sweep = _Sweep(*view)
    if not sweep.tables:
        return lake, view, NEXT
    lake, remaining = _without_one(lake, sweep.tables)
    return lake, sweep._replace(tables=remaining), STAY


def _sweep_one_table(lake: Lake, view: View, name: str) -> Result:
    tables = _Sweep(*view).tables
    return _without_one(lake, tables)[0]._replace(lock="") if tables else lake, (), NEXT


def _without_one(lake: Lake, tables: frozenset[Table]) -> tuple[Lake, frozenset[Table]]:
    """Return the lake without the first of some tables, and the others."""
    first = min(tables, key=lambda table: (sorted(table[0]), table[1]))
    ranges = frozenset(each for each in lake.ranges if each[0] != first)
    return lake._replace(ranges=ranges), tables - {first}


# --- dumps ----------------------------------------------------------------------------------------


def dump(guards: Guards) -> Verb:
    """Write a dump of all heads. A restore needs their trees."""

    def look(lake: Lake, _: View, name: str) -> Result:
        if not guards.dumps_exclude_sweeps:
            return lake, tuple(sorted(lake.heads)), NEXT
        if lake.lock:
            return lake, (), REFUSED
        return lake._replace(lock="dump"), tuple(sorted(lake.heads)), NEXT

    def write(lake: Lake, view: View, name: str) -> Result:
        lock = lake.lock if lake.lock == "gc" else ""
        return lake._replace(dump=frozenset(view), lock=lock), (), DONE

    return [look, write]


# --- purges ---------------------------------------------------------------------------------------


def purge(guards: Guards, path: str) -> Verb:
    """Delete the objects of a path from history, unless a head or a staged change has it."""
    own = _Purge(guards, path)
    opening: list[Step] = [_open_purge, own.raise_fence]
    if not guards.purge_marker_is_set_before_the_fence:
        opening.reverse()
    if guards.purge_marker_is_kept_until_the_end:
        return [*opening, own.scan, _delete_purged, _close_purge, end]
    return [*opening, own.scan, _close_purge, _delete_purged, end]


@dataclass(frozen=True, slots=True)
class _Purge:
    """The guarded steps of a purge."""

    guards: Guards
    path: str

    def raise_fence(self, lake: Lake, view: View, name: str) -> Result:
        fence = lake.fence + self.guards.purge_raises_the_fence
        return seal_all(lake)._replace(fence=fence), view, NEXT

    def scan(self, lake: Lake, _: View, name: str) -> Result:
        live = {path for _, branch in lake.branches for path, _ in visible_objects(lake, branch)}
        if self.path in live and self.guards.purge_refuses_live_paths:
            return lake._replace(purging=False), (), REFUSED
        matches = frozenset(
            (commit, address)
            for commit, table, _ in lake.commits
            for path, _, address in lake.files(table) or ()
            if path == self.path
        )
        addresses = frozenset(address for _, address in matches)
        if self.path not in live:
            lake = lake._replace(purged=lake.purged | addresses, excused=lake.excused | matches)
        return lake, tuple(sorted(addresses)), NEXT


def _open_purge(lake: Lake, _: View, name: str) -> Result:
    return lake._replace(purging=True), (), NEXT


def _delete_purged(lake: Lake, view: View, name: str) -> Result:
    if not view:
        return lake, view, NEXT
    return lake._replace(objects=lake.objects - {view[0]}), view[1:], STAY


def _close_purge(lake: Lake, view: View, name: str) -> Result:
    return lake._replace(purging=False), view, NEXT
