"""Signatures of commits, and their publication by one compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparklake.errors import InvalidInputError
from sparklake.graveler.commits import Commit, new_commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import BranchMove, BranchState, LayerCut
from sparklake.graveler.ports.once import OnceRecord
from sparklake.uri import is_utf8
from sparklake.verbs.base.context import Context, now

MAX_TEXT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Signature:
    message: str
    committer: str
    metadata: Mapping[str, str]

    def labelled(self, labels: Mapping[str, str]) -> Signature:
        return replace(self, metadata={**self.metadata, **labels})


def sign(
    context: Context, message: str, committer: str | None, metadata: Mapping[str, str] | None
) -> Signature:
    if not message.strip():
        raise InvalidInputError("a commit needs a message: describe what changed and why")
    who = committer or context.committer
    texts = [message, who, *(metadata or {}).keys(), *(metadata or {}).values()]
    check_texts(texts, "a commit's message, committer and metadata")
    return Signature(message, who, dict(metadata or {}))


def check_texts(texts: Sequence[str], noun: str) -> None:
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInputError(f"{noun} must be strings: {texts!r} contains another type")
    if any("\0" in text or not is_utf8(text) for text in texts):
        raise InvalidInputError(f"{noun} must be UTF-8 without NUL")
    if sum(len(text.encode()) for text in texts) > MAX_TEXT_BYTES:
        raise InvalidInputError(f"{noun} may have at most {MAX_TEXT_BYTES} bytes")


def publish(
    context: Context,
    state: BranchState,
    verb: str,
    parents: Sequence[Commit],
    meta_range_id: MetaRangeId,
    signature: Signature,
    applied_layers: Sequence[int] = (),
    cut: LayerCut | None = None,
    result: Callable[[Commit], object] = lambda commit: commit,
) -> Commit:
    """Move a branch from the expected head to a new commit.

    The tree contains the staging layers `applied_layers` or, with a cut, only their cut part.
    `result` returns the verb's result for its idempotency key.
    """
    commit = signed_commit(parents, meta_range_id, signature)
    once = context.recorded(result(commit))
    publish_all(context, state, verb, [commit], once=once, applied_layers=applied_layers, cut=cut)
    return commit


def signed_commit(
    parents: Sequence[Commit], meta_range_id: MetaRangeId, signature: Signature
) -> Commit:
    """Return an unpublished commit of a tree, with the current time."""
    return new_commit(
        parents=parents,
        committer=signature.committer,
        message=signature.message,
        creation_date=now(),
        meta_range_id=meta_range_id,
        metadata=signature.metadata,
    )


def publish_all(
    context: Context,
    state: BranchState,
    verb: str,
    commits: Sequence[Commit],
    once: OnceRecord | None,
    *,
    applied_layers: Sequence[int] = (),
    cut: LayerCut | None = None,
) -> None:
    """Move a branch from the expected head over new commits, atomically.

    The fence is that of the verb's start. Raises RaceLostError, CollectionStartedError, and
    HookFailedError for a move rejected by a hook.
    """
    move = BranchMove(
        branch=state.name,
        expected=state.commit_id,
        to=commits[-1].id,
        verb=verb,
        who=commits[-1].committer,
        commits=tuple(commits),
        applied_layers=tuple(applied_layers),
        cut=cut,
        change_summaries=change_summaries(context, commits),
        fence=state.fence,
        once=once,
        # The content of a branch with applied layers stays as it is.
        runs=None if applied_layers else state.runs,
    )
    with context.move_guard.around_move(context, move):
        context.refs.branches.move(move)


def change_summaries(context: Context, commits: Sequence[Commit]) -> dict[CommitId, bytes]:
    """Return the possible changes of commits against their first parents, without I/O."""
    # Lazy import: numpy, which settings do not need.
    from sparklake.graveler.planning.change_summary import encode_summary

    trees = {each.id: each.meta_range_id for each in commits}
    summaries = {}
    for each in commits:
        parent = each.parents[0]
        # The id of an empty tree is an empty text.
        before = trees.get(parent)
        if before is None:
            before = context.graph.commit(parent).meta_range_id
        summary = None
        if before != each.meta_range_id:
            summary = context.trees.change_summary(before, each.meta_range_id)
        if summary is not None:
            summaries[each.id] = encode_summary(summary)
    return summaries
