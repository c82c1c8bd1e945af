"""Rebase: replay a branch's own commits onto another commit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sparklake.errors import NoChangesError
from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.merge_base import own_commits
from sparklake.graveler.guards import actions_of
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchMove, BranchState
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees, merge_base
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.publish import change_summaries, signed_commit
from sparklake.verbs.base.resolve import (
    check_clean,
    check_kept,
    get_branch,
    get_commit,
    open_branch,
)
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.base.signing import Signature
from sparklake.verbs.merges.replay import origin_labels, own_metadata, replayed_tree


@dataclass(slots=True)
class _Replays:
    context: Context
    title: str
    resolution: Resolution
    _attempts: dict[CommitId, Attempts] = field(default_factory=dict)

    def made(self, origin: Commit, head: Commit, onto: CommitId) -> Commit | None:
        """Return the unpublished replay of a commit over a head, or None if it is empty.

        `onto` is the published commit below the head.
        """
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
    """Move a branch onto a commit and replay its own commits there; return the new ones.

    Raises the errors of `revert`, and RefNotFoundError; then no branch moves.
    """
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
            made = replays.made(origin, head, published.id)
            if made is not None:
                commits.append(made)
                head = made
        _publish(context, replace(state, fence=fence), head, commits)
        return commits

    return with_branch_queue(context, branch, attempt)


def _own(context: Context, state: BranchState, target: Commit) -> list[Commit]:
    head = context.graph.commit(state.commit_id)
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
