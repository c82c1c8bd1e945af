"""Commit: staged layers over the head, published by one compare-and-swap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from sparklake.engine.execution import finish, run_plan
from sparklake.errors import ChangesTakenError, InvalidInputError, NoChangesError
from sparklake.graveler.commits import Commit, new_commit
from sparklake.graveler.planning import plan_apply
from sparklake.graveler.ports import BranchMove, BranchState
from sparklake.graveler.ranges import MetaRange
from sparklake.udfs.writing import apply_body
from sparklake.verbs.context import Context, now
from sparklake.verbs.publish import until_it_lands
from sparklake.verbs.staged import staged_intervals, staged_sides

MAX_MESSAGE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Signature:
    """Is what the author says of a commit."""

    message: str
    committer: str
    metadata: Mapping[str, str]


def sign(
    context: Context,
    message: str,
    committer: str | None,
    metadata: Mapping[str, str] | None,
) -> Signature:
    """Returns a checked signature; raises InvalidInputError."""
    if not message.strip():
        raise InvalidInputError("a commit needs a message: say what changed and why")
    texts = [message, committer or "", *(metadata or {}).keys(), *(metadata or {}).values()]
    if any("\0" in text or not _is_utf8(text) for text in texts):
        raise InvalidInputError("a commit's message, committer and metadata are UTF-8 without NUL")
    if sum(len(text.encode()) for text in texts) > MAX_MESSAGE_BYTES:
        raise InvalidInputError(f"a commit's texts take at most {MAX_MESSAGE_BYTES} bytes")
    return Signature(message, committer or context.committer, dict(metadata or {}))


def commit(
    context: Context, branch: str, signature: Signature, *, allow_empty: bool = False
) -> Commit:
    """Commits what is staged on a branch.

    Raises NoChangesError when that is nothing, ChangesTakenError when another writer has committed
    it meanwhile, RaceLostError when the branch kept moving.
    """
    had_changes = False

    def attempt() -> Commit:
        nonlocal had_changes
        state = context.refs.staging.seal(branch)
        if had_changes and not state.layers:
            raise ChangesTakenError(
                f"what was staged on {branch!r} has just been committed by another writer, "
                f"in {state.commit_id} or before"
            )
        had_changes = bool(state.layers)
        return _commit_sealed(context, state, signature, allow_empty=allow_empty)

    return until_it_lands(attempt)


def _commit_sealed(
    context: Context, state: BranchState, signature: Signature, *, allow_empty: bool
) -> Commit:
    head = context.graph.commit(state.commit_id)
    tree = apply_layers(context, context.tree(head), state)
    applied = tuple(layer.id for layer in state.layers)
    if tree.id == head.meta_range_id and not allow_empty:
        # The layers hold only what the head holds already: they would make the branch look dirty.
        who = signature.committer
        context.refs.branches.move(
            BranchMove(state.name, head.id, head.id, "commit", who, applied_layers=applied)
        )
        raise NoChangesError(f"nothing is staged on {state.name!r} that would change it")
    made = new_commit(
        parents=[head],
        committer=signature.committer,
        message=signature.message,
        creation_date=now(),
        meta_range_id=tree.id,
        metadata=signature.metadata,
    )
    context.refs.branches.move(
        BranchMove(state.name, head.id, made.id, "commit", made.committer, made, applied)
    )
    return made


def apply_layers(context: Context, base: MetaRange, state: BranchState) -> MetaRange:
    """Writes the tree of staged layers over a base; the base itself when they change nothing."""
    sides = staged_sides(context, state.layers)
    plan = plan_apply(base.ranges, sides, staged_intervals(context, base.ranges, sides))
    if not plan.stretches:
        return base
    runner = context.runners.choose(plan.records)
    outcome = run_plan(runner, partial(apply_body, context.workspace), plan)
    if not outcome.counts.total:
        return base
    return finish(context.store, context.workspace, outcome.pieces)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
