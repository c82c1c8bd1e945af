"""From ref expressions to commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sparklake.errors import AmbiguousRefError, DirtyBranchError, InvalidRefError, RefNotFoundError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId
from sparklake.graveler.ports import BranchState, Layer
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.refs.names import (
    Ref,
    RefStep,
    StepKind,
    is_commit_id,
    is_commit_id_prefix,
    parse_ref,
)
from sparklake.graveler.retention import expired_error
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.publish import retry_lost_races

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """What a ref shows: the tree of a commit, and over it what is staged, of a bare branch.

    `staged` marks `branch$`, which shows what is staged over nothing. Where the ref `is_name` of a
    branch or tag, the commit has not expired.
    """

    commit: Commit
    branch: BranchState | None = None
    staged: bool = False
    is_name: bool = False

    @property
    def layers(self) -> tuple[Layer, ...]:
        """What is staged over the tree, the newest layer first."""
        return self.branch.layers if self.branch else ()

    def tree(self, context: Context) -> MetaRange:
        """Return the tree under the layers."""
        return context.trees.get(EMPTY_META_RANGE) if self.staged else context.tree(self.commit)

    def check_kept(self, context: Context) -> None:
        """Raise ExpiredError where objects of the tree may be gone."""
        if not self.is_name:
            check_kept(context, [self.commit.id])


def get_commit(context: Context, text: str) -> Commit:
    """Return the commit of a ref; raise InvalidRefError for `branch$`, which has none."""
    return _of_commit(context, text).commit


def kept_commit(context: Context, text: str) -> Commit:
    """Return the commit of a ref, to read its objects or to name them elsewhere.

    Who publishes what names them has read a fence before. Raises ExpiredError.
    """
    found = _of_commit(context, text)
    found.check_kept(context)
    return found.commit


def check_kept(context: Context, commit_ids: Sequence[CommitId]) -> None:
    """Raise ExpiredError for the first of some commits that has expired."""
    expired = context.refs.commits.expired(commit_ids) if commit_ids else ()
    first = next(filter(expired.__contains__, commit_ids), None)
    if first is not None:
        raise expired_error(first)


def _of_commit(context: Context, text: str) -> ResolvedRef:
    ref = parse_ref(text)
    if ref.staged:
        raise InvalidRefError(
            f"{text!r} is what is staged, and no commit: write {ref.base!r} for the head; "
            "`sparklake diff` of the branch alone shows what is staged"
        )
    return _resolve(context, text, ref)


def _resolve(context: Context, text: str, ref: Ref) -> ResolvedRef:
    """Return what a ref means: full commit id, branch, tag, unique id prefix, in this order."""
    found = _base(context, ref)
    if (ref.committed or ref.staged) and found.branch is None:
        raise InvalidRefError(f"{text!r}: {text[-1]!r} follows a branch, and {ref.base!r} is none")
    commit = found.commit
    for step in ref.steps:
        commit = _follow(context, text, commit, step)
    bare = not ref.steps and not ref.committed
    is_name = found.is_name and not ref.steps
    return ResolvedRef(commit, found.branch if bare else None, ref.staged, is_name)


def read_consistently(context: Context, ref: str, read: Callable[[ResolvedRef], T]) -> T:
    """Return what `read` makes of a ref as it was at one moment.

    A commit takes the rows that it has applied out of Postgres. Who comes to read them then is told
    so by a RaceLostError, and begins again from the new head.
    """
    parsed = parse_ref(ref)
    return retry_lost_races(lambda: read(_resolve(context, ref, parsed)))


def get_branch(context: Context, name: str) -> BranchState:
    """Return a branch; raise RefNotFoundError."""
    state = context.refs.branches.find(name)
    if state is None:
        raise RefNotFoundError(
            f"{context.info.name} has no branch {name!r}; `sparklake branch list` shows what it has"
        )
    return state


def open_branch(context: Context, name: str, *actions: Action) -> BranchState:
    """Return a branch that is to be changed; raise ReadOnlyError, ProtectedError at once.

    That is before any work is done for it. The ref store asks again when it makes the change.
    """
    state = get_branch(context, name)
    state.guard.check(name, *actions)
    return state


def check_clean(state: BranchState, verb: str) -> None:
    """Raise DirtyBranchError for a branch with staged changes."""
    if state.layers:
        raise DirtyBranchError(
            f"{state.name!r} has uncommitted changes: commit or drop them before you {verb}"
        )


def _base(context: Context, ref: Ref) -> ResolvedRef:
    if is_commit_id(ref.base):
        commit = context.refs.commits.find(CommitId(ref.base))
        if commit is not None:
            return ResolvedRef(commit)
    branch = context.refs.branches.find(ref.base)
    if branch is not None:
        return ResolvedRef(context.graph.commit(branch.commit_id), branch, is_name=True)
    tag = context.refs.tags.find(ref.base)
    if tag is not None:
        return ResolvedRef(context.graph.commit(tag.commit_id), is_name=True)
    return ResolvedRef(_by_prefix(context, ref.base))


def _by_prefix(context: Context, prefix: str) -> Commit:
    found = context.refs.commits.find_by_prefix(prefix) if is_commit_id_prefix(prefix) else ()
    if len(found) > 1:
        raise AmbiguousRefError(f"{prefix!r} begins several commit ids; give more of its digits")
    if not found:
        raise RefNotFoundError(
            f"{context.info.name} has no branch, tag or commit {prefix!r}; "
            "`sparklake branch list` and `sparklake log` show what it has"
        )
    return found[0]


def _follow(context: Context, text: str, commit: Commit, step: RefStep) -> Commit:
    if step.kind is StepKind.PARENT:
        if step.count == 0:
            return commit
        if step.count > len(commit.parents):
            raise RefNotFoundError(
                f"{text!r}: commit {commit.id[:12]} has {len(commit.parents)} parents, "
                f"not {step.count}"
            )
        return context.graph.ancestor(commit.parents[step.count - 1])
    found = context.graph.first_ancestor(commit, step.count)
    if found is None:
        raise RefNotFoundError(f"{text!r} goes back past the first commit")
    return found
