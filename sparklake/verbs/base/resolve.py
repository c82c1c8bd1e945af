"""Resolution of ref expressions to commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sparklake.errors import (
    AmbiguousRefError,
    DirtyBranchError,
    InvalidRefError,
    RefNotFoundError,
    UnexpectedHeadError,
)
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId
from sparklake.graveler.ports import BranchState, Layer
from sparklake.graveler.refs import names
from sparklake.graveler.retention import collected_error, expired_error
from sparklake.uri import plain_ref
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.runner import retry_lost_races

if TYPE_CHECKING:
    from sparklake.graveler.ranges import MetaRange

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """The content of a ref: a commit's tree, and a branch's staged layers over it.

    `staged` marks `branch$`: staged layers over nothing. The commit of a branch or tag (`is_name`)
    is not expired.
    """

    commit: Commit
    branch: BranchState | None = None
    staged: bool = False
    is_name: bool = False

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The staged layers over the tree, newest first."""
        return self.branch.layers if self.branch else ()

    def tree(self, context: Context) -> MetaRange:
        if self.staged:
            return context.trees.get(EMPTY_META_RANGE)
        if not self.is_name:
            check_trees(context, [self.commit.id])
        return context.tree(self.commit)

    def check_kept(self, context: Context) -> None:
        if not self.is_name:
            check_kept(context, [self.commit.id])


def check_expected(context: Context, name: str, commit_id: CommitId, expected: str | None) -> None:
    """Raise UnexpectedHeadError unless a ref is at the expected one."""
    if expected is None:
        return
    awaited = get_commit(context, expected)
    if commit_id != awaited.id:
        raise UnexpectedHeadError(
            f"{name!r} is at {commit_id[:12]}, not at {awaited.id[:12]}: check the new commits, "
            "and expect the current one"
        )


def get_commit(context: Context, text: str) -> Commit:
    """Return the commit of a ref; `branch$` has none and raises InvalidRefError."""
    return _of_commit(context, text).commit


def kept_commit(context: Context, text: str) -> Commit:
    """Return the commit of a ref, to read or reference its objects. Raises ExpiredError.

    Before publishing references to its objects, read a fence.
    """
    return kept_ref(context, text).commit


def kept_ref(context: Context, text: str) -> ResolvedRef:
    resolved = _of_commit(context, text)
    resolved.check_kept(context)
    return resolved


def listed_commit(context: Context, text: str) -> Commit:
    """Return the commit of a ref, to list or compare its tree. Raises ExpiredError."""
    resolved = _of_commit(context, text)
    if not resolved.is_name:
        check_trees(context, [resolved.commit.id])
    return resolved.commit


def check_trees(context: Context, commit_ids: Sequence[CommitId]) -> None:
    collected = context.refs.commits.collected(commit_ids) if commit_ids else ()
    first = next(filter(collected.__contains__, commit_ids), None)
    if first is not None:
        raise collected_error(first)


def check_kept(context: Context, commit_ids: Sequence[CommitId]) -> None:
    expired = context.refs.commits.expired(commit_ids) if commit_ids else ()
    first = next(filter(expired.__contains__, commit_ids), None)
    if first is not None:
        raise expired_error(first)


def _of_commit(context: Context, text: str) -> ResolvedRef:
    text = plain_ref(context.info.name, text)
    ref = names.parse_ref(text)
    if ref.staged:
        raise InvalidRefError(
            f"{text!r} means staged changes, not a commit: write {ref.base!r} for the head; "
            "`sparklake diff` of the branch alone shows the staged changes"
        )
    return _resolve(context, text, ref)


def _resolve(context: Context, text: str, ref: names.Ref) -> ResolvedRef:
    """Resolve a ref: full commit id, branch, tag, unique prefix, in this order."""
    resolved = _base(context, ref)
    if (ref.committed or ref.staged) and resolved.branch is None:
        raise InvalidRefError(
            f"{text!r}: {text[-1]!r} must follow a branch, and {ref.base!r} is not a branch"
        )
    commit = resolved.commit
    for step in ref.steps:
        commit = _follow(context, text, commit, step)
    bare = not ref.steps and not ref.committed
    is_name = resolved.is_name and not ref.steps
    return ResolvedRef(commit, resolved.branch if bare else None, ref.staged, is_name)


def read_consistently(context: Context, ref: str, read: Callable[[ResolvedRef], T]) -> T:
    """Return the result of `read` for a consistent ref; retried after lost races."""
    ref = plain_ref(context.info.name, ref)
    parsed = names.parse_ref(ref)
    return retry_lost_races(lambda: read(_resolve(context, ref, parsed)))


def get_branch(context: Context, name: str) -> BranchState:
    name = plain_ref(context.info.name, name)
    state = context.refs.branches.find(name)
    if state is None:
        raise _no_branch(context, name)
    return state


def _no_branch(context: Context, name: str) -> RefNotFoundError:
    repository = context.info.name
    missing = f"{repository} has no branch {name!r}"
    try:
        ref = names.parse_ref(name)
        resolved = _resolve(context, name, ref)
    except (RefNotFoundError, InvalidRefError):
        near = names.suggestion(name, _names(context))
        return RefNotFoundError(f"{missing}{near}; `sparklake branch list` shows its branches")
    if ref.committed or ref.staged:
        return RefNotFoundError(f"{missing}: use {ref.base!r}")
    kind = "a tag" if resolved.is_name else f"commit {resolved.commit.id[:12]}"
    return RefNotFoundError(
        f"{missing}: it is {kind}, which never changes. Use a branch, or create one with "
        f"`sparklake branch create lakefs://{repository}/NAME --source lakefs://{repository}/"
        f"{name}`"
    )


def open_branch(context: Context, name: str, *actions: Action) -> BranchState:
    """Return a branch to change, after an early check of its guard."""
    state = get_branch(context, name)
    state.guard.check(name, *actions)
    return state


def check_clean(state: BranchState, verb: str) -> None:
    if state.layers:
        raise DirtyBranchError(
            f"{state.name!r} has uncommitted changes: commit or drop them before you {verb}"
        )


def _base(context: Context, ref: names.Ref) -> ResolvedRef:
    if names.is_commit_id(ref.base):
        commit = context.refs.commits.find(CommitId(ref.base))
        if commit is not None:
            return ResolvedRef(commit)
    branch = context.refs.branches.find(ref.base)
    if branch is not None:
        return ResolvedRef(context.graph.head(branch), branch, is_name=True)
    tag = context.refs.tags.find(ref.base)
    if tag is not None:
        return ResolvedRef(context.graph.commit(tag.commit_id), is_name=True)
    return ResolvedRef(_by_prefix(context, ref.base))


def _by_prefix(context: Context, prefix: str) -> Commit:
    matches = (
        context.refs.commits.find_by_prefix(prefix) if names.is_commit_id_prefix(prefix) else ()
    )
    if len(matches) > 1:
        raise AmbiguousRefError(f"several commit ids start with {prefix!r}: add more digits")
    if not matches:
        tags = (each.name for each in context.refs.tags.list())
        raise RefNotFoundError(
            f"{context.info.name} has no branch, tag or commit {prefix!r}"
            f"{names.suggestion(prefix, [*_names(context), *tags])}; `sparklake branch list`, "
            "`sparklake tag list` and `sparklake log` show them"
        )
    return matches[0]


def _names(context: Context) -> Iterator[str]:
    return (each.name for each in context.refs.branches.list() if not each.hidden)


def _follow(context: Context, text: str, commit: Commit, step: names.RefStep) -> Commit:
    if step.kind is names.StepKind.PARENT:
        if step.count == 0:
            return commit
        if step.count > len(commit.parents):
            raise RefNotFoundError(
                f"{text!r}: commit {commit.id[:12]} has {len(commit.parents)} parents, "
                f"not {step.count}"
            )
        return context.graph.ancestor(commit.parents[step.count - 1])
    ancestor = context.graph.first_ancestor(commit, step.count)
    if ancestor is None:
        raise RefNotFoundError(f"{text!r} goes back beyond the first commit")
    return ancestor
