"""Merge: base, source, dest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from sparklake.engine.execution import cut_for_tasks
from sparklake.engine.explanation import THREE_WAY, Explanation, explained
from sparklake.errors import NoChangesError
from sparklake.graveler.commits import STRATEGY_METADATA_KEY, Commit, reverted_commit
from sparklake.graveler.keys import path_tuple
from sparklake.graveler.planning.path_filter import PATHS_NOUN, PathFilter, filter_for, first_paths
from sparklake.graveler.ports import BranchState
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.publish import Signature, publish, sign
from sparklake.verbs.base.read import have_equal_records
from sparklake.verbs.base.resolve import ResolvedRef, check_expected, get_branch, kept_ref
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.merges.three_way import (
    BaseTrees,
    check_staged_changes,
    merged_tree,
    naming_verb,
    plan_sides,
)

ORIGIN_METADATA_KEY = "merge-origin"
PATHS_METADATA_KEY = "merge-paths"

_MAX_SEARCHED = 1000
"""The maximum number of commits to search for the revert of a merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """The options of a merge.

    With `squash` or `paths`, source is not a parent, and a later merge uses the same base.
    `expect_source` and `expect_dest` are the commits that a preview compared.
    """

    resolution: Resolution = field(default_factory=Resolution)
    message: str | None = None
    committer: str | None = None
    metadata: Mapping[str, str] | None = None
    squash: bool = False
    allow_empty: bool = False
    paths: Sequence[str] | None = None
    expect_source: str | None = None
    expect_dest: str | None = None

    def __post_init__(self) -> None:
        if self.paths is not None:
            # An iterator could be read only once.
            object.__setattr__(self, "paths", path_tuple(self.paths, PATHS_NOUN))
        filter_for(self.paths)

    @property
    def has_one_parent(self) -> bool:
        return self.squash or self.paths is not None

    @property
    def path_filter(self) -> PathFilter:
        return filter_for(self.paths)

    def default_message(self, source: str, dest: str) -> str:
        if self.paths is not None:
            return f"Merge {first_paths(self.paths)} of {source!r} into {dest!r}"
        return f"{'Squash' if self.squash else 'Merge'} {source!r} into {dest!r}"

    def labels(self, source: Commit) -> dict[str, str]:
        """Return metadata about the strategy, and about a source that is not a parent."""
        labels: dict[str, str] = {ORIGIN_METADATA_KEY: source.id} if self.has_one_parent else {}
        labels[STRATEGY_METADATA_KEY] = self.resolution.label
        if self.paths is None:
            return labels
        return {**labels, PATHS_METADATA_KEY: json.dumps([*self.paths], ensure_ascii=False)}


class MergeSides(NamedTuple):
    source: ResolvedRef
    dest: Commit
    trees: ThreeWayTrees
    dirty: bool


@restarts(versions=True)
def merge(context: Context, source: str, dest: str, options: MergeOptions) -> Commit:
    """Merge a ref into a branch as a commit with parents [dest, source].

    Staged changes of the branch stay staged. Changes to merged objects staged before the merge
    raise DirtyBranchError; those staged concurrently count as later.
    """
    message = options.message or options.default_message(source, dest)
    start = get_branch(context, dest)
    source_ref = _source(context, source, dest)
    check_expected(context, source, source_ref.commit.id, options.expect_source)
    metadata = {**(options.metadata or {}), **options.labels(source_ref.commit)}
    signature = sign(context, message, options.committer, metadata)
    check_namespace(context.store)
    attempts = Attempts(context, context.title("merge", f"{source} -> {dest}"))
    bases = BaseTrees(context)

    def attempt(state: BranchState | None = None) -> Commit:
        current = replace(state or get_branch(context, dest), fence=start.fence)
        current.guard.check(dest)
        check_expected(context, dest, current.commit_id, options.expect_dest)
        return _merge_once(attempts, bases, source_ref, current, signature, options)

    return with_branch_queue(context, dest, attempt, first=partial(attempt, start))


def explain_merge(context: Context, source: str, dest: str, options: MergeOptions) -> Explanation:
    """Return the plan of a merge. A criss-cross merge writes its virtual base."""
    plan = plan_sides(context, merge_sides(context, source, dest, options).trees)
    return explained("merge", plan, cut_for_tasks, context.runners, THREE_WAY)


def merge_sides(context: Context, source: str, dest: str, options: MergeOptions) -> MergeSides:
    source_ref = _source(context, source, dest)
    return _sides(BaseTrees(context), source_ref, get_branch(context, dest), options)


def _source(context: Context, source: str, dest: str) -> ResolvedRef:
    if source == dest:
        raise NoChangesError(f"{source!r} cannot be merged into itself: choose two different refs")
    return kept_ref(context, source)


def _sides(
    bases: BaseTrees, ref: ResolvedRef, state: BranchState, options: MergeOptions
) -> MergeSides:
    source = ref.commit
    dest = bases.context.graph.head(state)
    base, ids = bases.get(source, dest)
    if source.meta_range_id == base and not options.allow_empty:
        raise nothing_to_merge(bases.context, ref, state.name, head=dest)
    trees = ThreeWayTrees(
        base=base,
        source=source.meta_range_id,
        dest=dest.meta_range_id,
        path_filter=options.path_filter,
        bases=ids,
        source_head=source.id,
        dest_head=dest.id,
    )
    return MergeSides(ref, dest, trees, dirty=bool(state.layers))


def nothing_to_merge(
    context: Context,
    source: ResolvedRef,
    dest: str,
    paths: Sequence[str] | None = None,
    head: Commit | None = None,
) -> NoChangesError:
    what = "all changes" if paths is None else f"all changes of {first_paths(paths)}"
    reason = f"{dest!r} already has {what} in commit {source.commit.id[:12]}"
    if source.branch is not None and source.layers:
        name = source.branch.name
        reason += (
            f", and the staged changes of {name!r} are not committed. Commit them first: "
            f"`sparklake commit lakefs://{context.info.name}/{name} -m MESSAGE`"
        )
    elif head is not None:
        reason += _reverted(context, source.commit, dest, head)
    return NoChangesError(f"nothing to merge: {reason}")


def _reverted(context: Context, source: Commit, dest: str, head: Commit) -> str:
    """Return how to bring back changes of a source whose merge was reverted, or ""."""
    undone, merges = set[str](), {source.id}
    walk = Walk(context.graph)
    line = list(islice(_first_parents(walk, head), _MAX_SEARCHED))
    merges |= {each.id for each in line if source.id in each.parents[1:]}
    for each in line:
        origin = None if each.id in undone else reverted_commit(each)
        if origin in merges:
            place = f"lakefs://{context.info.name}"
            return (
                f", but {each.committer} reverted them in commit {each.id[:12]}. To bring them "
                f"back, revert that: `sparklake revert {place}/{dest} {place}/{each.id[:12]}`"
            )
        if origin is not None:
            undone.add(origin)
    return ""


def _first_parents(walk: Walk, commit: Commit) -> Iterator[Commit]:
    yield commit
    while parents := walk.parents(commit.id):
        commit = walk.commit(parents[0])
        yield commit


def _merge_once(
    attempts: Attempts,
    bases: BaseTrees,
    ref: ResolvedRef,
    state: BranchState,
    signature: Signature,
    options: MergeOptions,
) -> Commit:
    _, dest, trees, _ = _sides(bases, ref, state, options)
    with naming_verb("the merge was not applied"):
        tree_id, labels = merged_tree(attempts, trees, options.resolution)
    must_change = options.has_one_parent and not options.allow_empty
    # Other trees are results of tasks, and dest's own if nothing changed.
    compared = attempts.context, dest.meta_range_id, tree_id, attempts.title
    if must_change and tree_id in (trees.dest, trees.source) and have_equal_records(*compared):
        raise nothing_to_merge(attempts.context, ref, state.name, options.paths)
    check_staged_changes(attempts.context, attempts.title, state, tree_id)
    source = ref.commit
    parents = [dest] if options.has_one_parent or source.id == dest.id else [dest, source]
    return publish(attempts.context, state, "merge", parents, tree_id, signature.labelled(labels))
