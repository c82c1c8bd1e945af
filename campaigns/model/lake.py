"""The model's state: all stored values, and the rules of every state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

Objects = frozenset[tuple[str, str, str]]
"""Paths with their content and the address of an object."""

Tree = frozenset[tuple[str, str]]
"""Paths with their content."""

Table = tuple[Tree, int]
"""The id of a table, which does not depend on addresses: a tree, and a generation."""

Commits = frozenset[tuple[str, Table, tuple[str, ...]]]
"""Ids of commits with their tables and parents."""


@dataclass(frozen=True)
class Guards:
    """The checks of the verbs."""

    fence_is_read_first: bool = True
    fence_is_compared_when_staging: bool = True
    fence_is_compared_when_publishing: bool = True
    head_is_compared: bool = True
    layers_are_compared: bool = True
    layers_are_sealed_before_they_are_read: bool = True
    ranges_are_written_before_the_move: bool = True
    dead_ranges_are_replaced: bool = True
    deleted_addresses_stay_empty: bool = True
    adoption_waits_for_the_sweep: bool = True
    objects_are_listed_before_the_fence: bool = True
    fence_is_raised: bool = True
    names_are_read_with_the_fence: bool = True
    staged_objects_are_named: bool = True
    covered_layers_are_named: bool = True
    marker_is_set_before_the_fence: bool = True
    marker_is_kept_until_the_end: bool = True
    sweeps_have_their_own_markers: bool = True
    lists_are_claimed_once: bool = True
    claimed_lists_are_completed: bool = True
    undo_compares_the_head: bool = True
    candidates_are_refused: bool = True
    candidates_are_refused_before_the_put: bool = True
    candidates_are_announced_before_the_marker: bool = True
    tree_files_are_named_again_at_the_fence: bool = True
    expiry_is_marked_with_the_fence: bool = True
    moves_refuse_collected_trees: bool = True
    bases_keep_their_trees: bool = True
    dumped_trees_are_named: bool = True
    dumps_exclude_sweeps: bool = True
    caches_start_anew_after_a_sweep: bool = True
    sweep_is_counted_before_the_marker_is_removed: bool = True
    interrupted_sweep_is_counted: bool = True
    purge_refuses_live_paths: bool = True
    purge_raises_the_fence: bool = True
    purge_marker_is_set_before_the_fence: bool = True
    purge_marker_is_kept_until_the_end: bool = True
    adoption_waits_for_the_purge: bool = True


ALL_GUARDS = Guards()


class Layer(NamedTuple):
    """A staging layer."""

    id: str
    sealed: bool
    objects: Objects


class Branch(NamedTuple):
    """A branch: its head, the head before the latest move, and its layers, oldest first."""

    head: str
    before: str
    layers: tuple[Layer, ...]


class Cache(NamedTuple):
    """The tables in a client's cache, and the number of sweeps at that time."""

    client: str
    sweeps: int
    tables: frozenset[tuple[Table, Objects]]


class Lake(NamedTuple):
    """All stored values, and the promises to clients.

    `markers` are the files of open sweeps, and `purging` is that of an open purge. `claims` are the
    lists claimed by sweeps, and None for sweeps that ended before. `candidates` are the tables
    that a sweep may delete, and `sweeps` counts the sweeps. The trees of `treeless` commits are
    lost. `dump` has the heads in the last dump. `lock` is held by a dump or a collection of trees.
    `excused` are commits with objects deleted by a purge. `promised` are branches with paths and
    contents that they must show. `dropped` are the layers removed by a reset.
    """

    branches: tuple[tuple[str, Branch], ...]
    commits: Commits
    ranges: frozenset[tuple[Table, Objects]]
    objects: frozenset[str]
    fence: int = 0
    markers: frozenset[str] = frozenset()
    claims: frozenset[tuple[str, frozenset[str] | None]] = frozenset()
    candidates: frozenset[Table] = frozenset()
    sweeps: int = 0
    treeless: frozenset[str] = frozenset()
    caches: tuple[Cache, ...] = ()
    dump: frozenset[str] = frozenset()
    lock: str = ""
    purging: bool = False
    purged: frozenset[str] = frozenset()
    excused: frozenset[tuple[str, str]] = frozenset()
    promised: frozenset[tuple[str, str, str]] = frozenset()
    dropped: frozenset[str] = frozenset()
    applied: frozenset[str] = frozenset()

    def branch(self, name: str) -> Branch:
        """Return a branch."""
        return dict(self.branches)[name]

    def with_branch(self, name: str, branch: Branch) -> Lake:
        """Return the lake with a branch in a new form."""
        return self._replace(branches=tuple(sorted({**dict(self.branches), name: branch}.items())))

    def tree(self, commit: str) -> Tree:
        """Return the tree of a commit."""
        return self.table(commit)[0]

    def table(self, commit: str) -> Table:
        """Return a commit's table id."""
        return next(table for name, table, _ in self.commits if name == commit)

    def files(self, table: Table) -> Objects | None:
        """Return the objects of a table; None for a missing one."""
        return next((files for each, files in self.ranges if each == table), None)

    @property
    def heads(self) -> frozenset[str]:
        """The heads of all branches."""
        return frozenset(branch.head for _, branch in self.branches)


NEXT, AGAIN, REFUSED, DONE, STAY = "next", "again", "refused", "done", "stay"
BACK = "back to the step "
"""The result of a step after which an earlier one follows. Its distance comes after it."""

View = tuple[Any, ...]
Result = tuple[Lake, View, str]
Step = Callable[[Lake, View, str], Result]
"""A step gets the lake, what earlier steps have seen, and a name that is unique to the attempt."""

Verb = Sequence[Step]


# --- the graph of commits -------------------------------------------------------------------------


@lru_cache(None)
def ancestors(commits: Commits, commit: str) -> frozenset[str]:
    """Return a commit and all its ancestors."""
    parents = {name: above for name, _, above in commits}
    result, new = {commit}, [commit]
    while new:
        new = [above for each in new for above in parents[each] if above not in result]
        result.update(new)
    return frozenset(result)


@lru_cache(None)
def best_bases(commits: Commits, one: str, other: str) -> frozenset[str]:
    """Return the best common ancestors of two commits."""
    common = ancestors(commits, one) & ancestors(commits, other)
    above = {up for each in common for up in ancestors(commits, each) - {each}}
    return common - above


@lru_cache(None)
def with_bases(commits: Commits, retained: frozenset[str]) -> frozenset[str]:
    """Return commits with the best common ancestors of any two, recursively."""
    while True:
        pairs = combinations(sorted(retained), 2)
        wider = retained.union(*(best_bases(commits, *pair) for pair in pairs))
        if wider == retained:
            return retained
        retained = wider


# --- rules ----------------------------------------------------------------------------------------


def broken_rule(lake: Lake) -> str | None:
    """Return the broken rule of a state, or None."""
    return _broken_tables(lake) or _broken_objects(lake) or _broken_promises(lake)


def _broken_tables(lake: Lake) -> str | None:
    there = {table for table, _ in lake.ranges}
    tables = {table for name, table, _ in lake.commits if name not in lake.treeless}
    if missing := tables - there:
        return f"a commit names the range {[sorted(tree) for tree, _ in missing]}, which is missing"
    if {lake.table(each) for each in lake.dump} - there:
        return "the dump names a tree that is missing"
    excused = {name for name, _ in lake.excused}
    heads = {lake.table(each) for each in lake.heads - excused}
    if len(heads) > len({tree for tree, _ in heads}):
        return "two heads of equal content name different tables"
    if lake.treeless:
        if lake.heads & lake.treeless:
            return "a head has no tree"
        if with_bases(lake.commits, lake.heads) & lake.treeless:
            return "the base of two branches has no tree"
    return None


def _broken_objects(lake: Lake) -> str | None:
    files = dict(lake.ranges)
    staged = [layer for _, branch in lake.branches for layer in branch.layers]
    lost = {address for layer in staged for *_, address in layer.objects} - lake.objects
    for name, table, _ in lake.commits:
        if name not in lake.treeless:
            missing = {address for *_, address in files[table]} - lake.objects
            lost |= {each for each in missing if (name, each) not in lake.excused}
    return f"the objects {sorted(lost)} are named, but were deleted" if lost else None


def _broken_promises(lake: Lake) -> str | None:
    for name, path, content in lake.promised:
        if (path, content) not in visible_objects(lake, lake.branch(name)):
            return f"{name} lost {path}={content}"
    if lake.applied & lake.dropped:
        return "a commit contains a layer that a reset had dropped"
    return None


def visible_objects(lake: Lake, branch: Branch) -> set[tuple[str, str]]:
    """Return the paths and contents of a branch, including lower layers."""
    staged = {(path, content) for layer in branch.layers for path, content, _ in layer.objects}
    return staged | lake.tree(branch.head)


def tree_of(objects: Objects) -> Tree:
    """Return the paths and contents of objects."""
    return frozenset((path, content) for path, content, _ in objects)


def end(lake: Lake, _: View, name: str) -> Result:
    """End a verb."""
    return lake, (), DONE


def seal_all(lake: Lake) -> Lake:
    """Return the lake with all layers sealed, as a raised fence leaves them."""
    for name, branch in lake.branches:
        sealed = tuple(each._replace(sealed=True) for each in branch.layers)
        lake = lake.with_branch(name, branch._replace(layers=sealed))
    return lake
