"""Revert, cherry-pick and rebase: three-way merges of a commit and its parent into a head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sparklake.errors import InvalidInputError, NoChangesError
from sparklake.graveler.commits import (
    DROPPED_METADATA_KEY,
    MERGED_METADATA_KEY,
    ROWS_METADATA_KEY,
    WINNERS_METADATA_KEY,
    Commit,
    reverting_line,
)
from sparklake.graveler.graph.merge_base import own_commits
from sparklake.graveler.guards import actions_of
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId
from sparklake.graveler.ports import BranchMove, BranchState
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees, merge_base
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.publish import (
    Signature,
    change_summaries,
    publish_all,
    sign,
    signed_commit,
)
from sparklake.verbs.base.resolve import (
    check_clean,
    check_kept,
    get_branch,
    get_commit,
    open_branch,
)
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.merges.three_way import MergedTree, merged_tree, naming_verb

# The names that lakeFS uses.
ORIGIN_METADATA_KEY = "cherry-pick-origin"
COMMITTER_METADATA_KEY = "cherry-pick-committer"

_SUBJECT_CHARACTERS = 200
_SHOWN_PARENTS = 5
_PARENT_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a replay. The verb supplies missing texts."""

    parent_number: int | None = None
    resolution: Resolution = field(default_factory=Resolution)
    message: str | None = None
    committer: str | None = None
    metadata: Mapping[str, str] | None = None
    allow_empty: bool = False
    if_needed: bool = False


class _Change(NamedTuple):
    commit: Commit
    before: Commit | None


@dataclass(frozen=True, slots=True)
class _ReplayStep:
    """A change to apply, from base to source. Either may be None, the empty tree."""

    title: str
    base: Commit | None
    source: Commit | None
    signature: Signature


@restarts(versions=True)
def revert(
    context: Context, branch: str, refs: Sequence[str], options: ReplayOptions
) -> list[Commit]:
    """Undo the changes of each commit on a branch, in the given order, atomically."""
    fence = get_branch(context, branch).fence
    changes = [_change(context, ref, options) for ref in refs]
    check_kept(context, [each.before.id for each in changes if each.before is not None])
    steps = []
    for origin, before in changes:
        default = f"Revert {_subject(origin)}\n\n{reverting_line(origin.id)}"
        message = options.message or default
        signature = sign(context, message, options.committer, options.metadata)
        steps.append(_ReplayStep(f"revert {origin.id[:12]}", origin, before, signature))
    return _replay(context, "revert", branch, steps, options, fence)


@restarts(versions=True)
def cherry_pick(
    context: Context, branch: str, refs: Sequence[str], options: ReplayOptions
) -> list[Commit]:
    """Apply the changes of each commit to a branch, in the given order, atomically."""
    fence = get_branch(context, branch).fence
    changes = [_change(context, ref, options) for ref in refs]
    check_kept(context, [each.commit.id for each in changes])
    steps = []
    for origin, before in changes:
        message = options.message or origin.message
        labels = {**(options.metadata or own_metadata(origin)), **origin_labels(origin)}
        signature = sign(context, message, options.committer, labels)
        steps.append(_ReplayStep(f"cherry-pick {origin.id[:12]}", before, origin, signature))
    return _replay(context, "cherry-pick", branch, steps, options, fence)


def own_metadata(origin: Commit) -> dict[str, str]:
    merged = (
        *(MERGED_METADATA_KEY, WINNERS_METADATA_KEY),
        *(DROPPED_METADATA_KEY, ROWS_METADATA_KEY),
    )
    return {key: value for key, value in origin.metadata.items() if key not in merged}


def origin_labels(origin: Commit) -> dict[str, str]:
    return {ORIGIN_METADATA_KEY: origin.id, COMMITTER_METADATA_KEY: origin.committer}


def replayed_tree(
    attempts: Attempts, sides: ThreeWayTrees, resolution: Resolution, title: str
) -> MergedTree:
    with naming_verb(f"cannot {title}"):
        return merged_tree(attempts, sides, resolution)


def _change(context: Context, ref: str, options: ReplayOptions) -> _Change:
    commit, number = get_commit(context, ref), options.parent_number
    count = len(commit.parents)
    if number is not None and not 1 <= number <= count:
        raise InvalidInputError(f"commit {commit.id[:12]} has no parent {number}: it has {count}")
    if number is None and count > 1:
        parents = "; ".join(_parents(context, commit))
        raise InvalidInputError(
            f"commit {commit.id[:12]} is a merge of {count} parents: choose the parent to "
            f"compare it with by its number (--parent-number). {parents}"
        )
    before = context.graph.commit(commit.parents[(number or 1) - 1]) if commit.parents else None
    return _Change(commit, before)


def _parents(context: Context, commit: Commit) -> Iterator[str]:
    for number, each in enumerate(commit.parents[:_SHOWN_PARENTS], start=1):
        subject = _subject(context.graph.commit(each))[:_PARENT_CHARACTERS]
        into = ", which was merged into" if number == 1 else ""
        yield f"{number} is {each[:12]} {subject!r}{into}"


def _replay(
    context: Context,
    verb: str,
    branch: str,
    steps: Sequence[_ReplayStep],
    options: ReplayOptions,
    fence: int,
) -> list[Commit]:
    if not steps:
        raise InvalidInputError(f"nothing to {verb}: pass a commit")
    check_namespace(context.store)
    works = [(Attempts(context, context.title(verb, branch)), step) for step in steps]

    def attempt() -> list[Commit]:
        state = open_branch(context, branch, *actions_of(verb))
        check_clean(state, f"{verb} on it")
        commits = [context.graph.head(state)]
        for attempts, step in works:
            commit = _replayed(attempts, step, commits[-1], state.commit_id, options)
            if commit is not None:
                commits.append(commit)
        if len(commits) > 1:
            once = context.recorded(commits[1:])
            publish_all(context, replace(state, fence=fence), verb, commits[1:], once)
        return commits[1:]

    return with_branch_queue(context, branch, attempt)


def _replayed(
    attempts: Attempts, step: _ReplayStep, head: Commit, published: CommitId, options: ReplayOptions
) -> Commit | None:
    """Return the unpublished commit of one step over a head, or None for a no-op."""
    base, source = (
        EMPTY_META_RANGE if each is None else each.meta_range_id
        for each in (step.base, step.source)
    )
    bases = () if step.base is None else (step.base.id,)
    sides = ThreeWayTrees(
        base,
        source,
        head.meta_range_id,
        bases=bases,
        logs_grow=True,
        source_head=None if step.source is None else step.source.id,
        dest_head=published,
    )
    tree_id, labels = replayed_tree(attempts, sides, options.resolution, step.title)
    if tree_id == head.meta_range_id and not options.allow_empty:
        if options.if_needed:
            return None
        raise NoChangesError(f"nothing to do: to {step.title} would change nothing")
    return signed_commit([head], tree_id, step.signature.labelled(labels))


def _subject(commit: Commit) -> str:
    lines = commit.message.strip().splitlines()
    return lines[0][:_SUBJECT_CHARACTERS] if lines else commit.id[:12]


@dataclass(slots=True)
class _Replays:
    context: Context
    title: str
    resolution: Resolution
    _attempts: dict[CommitId, Attempts] = field(default_factory=dict)

    def replay(self, origin: Commit, head: Commit, onto: CommitId) -> Commit | None:
        """Return the replay of a commit, or None if empty; `onto` is published."""
        before = self.context.tree_before(origin)
        attempts = self._attempts.setdefault(origin.id, Attempts(self.context, self.title))
        sides = ThreeWayTrees(
            before,
            origin.meta_range_id,
            head.meta_range_id,
            bases=origin.parents[:1],
            source_head=origin.id,
            dest_head=onto,
        )
        title = f"rebase {origin.id[:12]}"
        tree_id, labels = replayed_tree(attempts, sides, self.resolution, title)
        # A commit that was empty from the start is kept, because it was made on purpose.
        if tree_id == head.meta_range_id and origin.meta_range_id != before:
            return None
        metadata = {**own_metadata(origin), **origin_labels(origin), **labels}
        signature = Signature(origin.message, origin.committer, metadata)
        return signed_commit([head], tree_id, signature)


@restarts(versions=True)
def rebase(context: Context, branch: str, onto: str, resolution: Resolution) -> list[Commit]:
    """Replay a branch's own commits onto a commit; return the new ones."""
    fence = get_branch(context, branch).fence
    target = get_commit(context, onto)
    check_namespace(context.store)
    replays = _Replays(context, context.title("rebase", branch), resolution)

    def attempt() -> list[Commit]:
        state = open_branch(context, branch, *actions_of("rebase"))
        check_clean(state, "rebase it")
        head = published = target
        commits: list[Commit] = []
        own = _own(context, state, target)
        check_kept(context, [target.id, *(each.id for each in own)])
        for origin in own:
            if origin.parents[:1] == (head.id,):
                head = published = origin
                continue
            commit = replays.replay(origin, head, published.id)
            if commit is not None:
                commits.append(commit)
                head = commit
        _publish(context, replace(state, fence=fence), head, commits)
        return commits

    return with_branch_queue(context, branch, attempt)


def _own(context: Context, state: BranchState, target: Commit) -> list[Commit]:
    head = context.graph.head(state)
    # Without a common ancestor, the branch's own commits are undefined.
    merge_base(context, target, head)
    walk = Walk(context.graph)
    ids = own_commits(head.id, target.id, walk.parents, walk.generation)
    own = [walk.commit(each) for each in ids]
    below = [target.id, *ids]
    in_a_row = all(each.parents[:1] == (at,) for each, at in zip(own, below, strict=False))
    if below[-1] == head.id and in_a_row:
        raise NoChangesError(
            f"nothing to rebase: {state.name!r} is already based on commit {target.id[:12]}"
        )
    return own


def _publish(context: Context, state: BranchState, head: Commit, commits: list[Commit]) -> None:
    move = BranchMove(
        branch=state.name,
        expected=state.commit_id,
        to=head.id,
        verb="rebase",
        who=context.committer,
        commits=tuple(commits),
        change_summaries=change_summaries(context, commits),
        fence=state.fence,
        once=context.recorded(commits),
        runs=state.runs,
    )
    with context.move_guard.around_move(context, move):
        context.refs.branches.move(move)
