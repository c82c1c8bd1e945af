"""Create, delete and expire branches; create and delete tags."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from sparklake import errors
from sparklake.graveler.guards import TRANSACTION_PREFIX, Action
from sparklake.graveler.ports import BranchState, RefVerb, TagInfo
from sparklake.graveler.refs.names import name_taken, validate_branch_name, validate_tag_name
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.once import VerbResult
from sparklake.verbs.base.publish import check_texts
from sparklake.verbs.base.resolve import get_branch, get_commit
from sparklake.verbs.base.staging import count_staged

_LONGEST = timedelta(days=36_500)


def checked_lifetime(lifetime: timedelta | None) -> timedelta | None:
    if lifetime is not None and not timedelta() < lifetime <= _LONGEST:
        raise errors.InvalidInputError(
            f"a branch cannot expire in {lifetime}: choose up to 36,500 days"
        )
    return lifetime


def set_expiry(context: Context, branch: str, lifetime: timedelta | None) -> BranchState:
    if lifetime is not None and branch == context.info.default_branch:
        raise errors.ProtectedError(f"{branch!r} is the default branch, which cannot expire")
    return context.refs.branches.set_lifetime(branch, checked_lifetime(lifetime))


def prune_branches(context: Context, *, dry_run: bool) -> list[BranchState]:
    """Delete expired branches, except protected ones, with their staged changes."""
    others = (each for each in context.refs.branches.list() if each.may_be_pruned)
    due = [each for each in others if each.name != context.info.default_branch]
    return due if dry_run else [each for each in due if _prune(context, each)]


def _prune(context: Context, branch: BranchState) -> bool:
    try:
        with context.move_guard.around_name(context, RefVerb.DELETE_BRANCH, branch.name):
            context.refs.branches.delete(
                branch.name, context.committer, discard_staged=True, if_expired=True
            )
    except (errors.RaceLostError, errors.RefNotFoundError, errors.ProtectedError):
        return False
    return True


def create_branch(
    context: Context,
    name: str,
    source: str,
    *,
    hidden: bool,
    expires: timedelta | None,
    exist_ok: bool = False,
) -> VerbResult[BranchState]:
    """Create a branch at any ref. With `exist_ok`, return an existing one unchanged."""
    validate_branch_name(name)
    if context.refs.tags.find(name) is not None:
        raise name_taken("tag", name)
    existing = context.refs.branches.find(name) if exist_ok else None
    if existing is not None:
        return VerbResult(existing, changed=False)
    start, lifetime = get_commit(context, source), checked_lifetime(expires)
    try:
        with context.move_guard.around_name(context, RefVerb.CREATE_BRANCH, name, start):
            state = context.refs.branches.create(
                name,
                start.id,
                context.committer,
                hidden=hidden,
                lifetime=lifetime,
                once=context.recorded(BranchState(name, start.id, hidden=hidden)),
            )
        return VerbResult(state)
    except errors.AlreadyExistsError:
        existing = context.refs.branches.find(name) if exist_ok else None
        if existing is None:
            raise  # Without `exist_ok`, or another writer has just created a tag.
        return VerbResult(existing, changed=False)


def rename_branch(context: Context, name: str, new_name: str) -> BranchState:
    """Rename a branch with its staged changes. Its hooks see a deletion and a creation."""
    validate_branch_name(new_name)
    if name == context.info.default_branch:
        raise errors.ProtectedError(
            f"{name!r} is the default branch of {context.info.name} and cannot be renamed"
        )
    if any(each.startswith(TRANSACTION_PREFIX) for each in (name, new_name)):
        raise errors.InvalidInputError(
            f"{name!r} cannot be renamed to {new_name!r}: names of transactions begin with "
            f"{TRANSACTION_PREFIX!r}"
        )
    if context.refs.branches.find(new_name) is not None:
        raise errors.AlreadyExistsError(f"the branch {new_name!r} already exists: choose another")
    state = get_branch(context, name)
    head = context.graph.commit(state.commit_id)
    guard = context.move_guard
    with (
        guard.around_name(context, RefVerb.DELETE_BRANCH, name),
        guard.around_name(context, RefVerb.CREATE_BRANCH, new_name, head),
    ):
        once = context.recorded(BranchState(new_name, head.id, hidden=state.hidden))
        return context.refs.branches.rename(name, new_name, context.committer, once=once)


def delete_branch(context: Context, name: str, *, discard_staged: bool) -> None:
    if name == context.info.default_branch:
        raise errors.ProtectedError(
            f"{name!r} is the default branch of {context.info.name} and cannot be deleted"
        )
    state = context.refs.branches.find(name)
    if state is not None and state.layers and not discard_staged:
        state.guard.check(name, Action.DELETE)
        raise errors.DirtyBranchError.of_deletion(name, _staged(context, state))
    with context.move_guard.around_name(context, RefVerb.DELETE_BRANCH, name):
        # The store checks again: changes may just have been staged.
        context.refs.branches.delete(name, context.committer, discard_staged=discard_staged)


def _staged(context: Context, state: BranchState) -> str:
    try:
        count = count_staged(context, state)
    except errors.SparklakeError as error:
        return f"staged changes that cannot be counted ({error})"
    return f"{count:,} staged change{'s' * (count != 1)}"


def create_tag(
    context: Context,
    name: str,
    ref: str,
    *,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    exist_ok: bool = False,
) -> VerbResult[TagInfo]:
    """Create a tag at a ref's commit. With `exist_ok`, return one of the same commit."""
    validate_tag_name(name)
    labels = dict(metadata or {})
    check_texts([message, *labels, *labels.values()], "a tag's message and metadata")
    if context.refs.branches.find(name) is not None:
        raise name_taken("branch", name)
    commit = get_commit(context, ref)
    tag = TagInfo(
        name=name,
        commit_id=commit.id,
        who=context.committer,
        creation_date=now(),
        message=message,
        metadata=labels,
    )
    with context.move_guard.around_name(context, RefVerb.CREATE_TAG, name, commit):
        try:
            context.refs.tags.create(tag, context.committer, once=context.recorded(tag))
        except errors.AlreadyExistsError:
            existing = context.refs.tags.find(name) if exist_ok else None
            if existing is None or existing.commit_id != commit.id:
                raise
            return VerbResult(existing, changed=False)
        return VerbResult(tag)


def delete_tag(context: Context, name: str) -> None:
    with context.move_guard.around_name(context, RefVerb.DELETE_TAG, name):
        context.refs.tags.delete(name, context.committer)
