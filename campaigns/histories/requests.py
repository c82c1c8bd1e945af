"""The recorded requests of clients, and their effects on a repository.

An effect returns None if the request cannot have happened in a state with the answer that the
client got. Each commit needs a message of its own, so that no two commits have one id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Union

import msgspec

from campaigns.histories.serial_model import (
    Branch,
    State,
    Tree,
    Version,
    applied,
    base_tree,
    first_parents,
    merged,
)

UNKNOWN: Any = object()
"""The answer of a request whose client saw no answer."""

NOTHING = ""
"""The answer of a commit that found nothing to commit. It drops changes without effect."""

BELOW = "@"
"""The end of a ref that means a branch without its staged changes."""


class Request(msgspec.Struct, frozen=True, tag=True):
    """A request to one repository."""

    is_read: ClassVar[bool] = False
    has_look: ClassVar[bool] = False
    makes_commit: ClassVar[bool] = False

    def look(self, state: State) -> tuple[State, Any] | None:
        """Return the state after the first step, and its view."""
        return state, None

    def is_current(self, state: State, view: Any) -> bool:
        """Tell whether the second step can still follow. If not, the first one is repeated."""
        return True

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        """Return the state after the request. `placeholder` is the id of an unknown commit."""
        raise NotImplementedError


# --- staged changes -------------------------------------------------------------------------------


class Stage(Request, frozen=True):
    """Put and delete objects, all of them at once. None deletes a path."""

    branch: str
    changes: dict[str, Union[str, None]]  # noqa: UP007  (msgspec reads it on Python 3.10)

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        branch = state.branches.get(self.branch)
        if branch is None:
            return None
        return state.with_branch(self.branch, branch.staged(self.changes))


class Reset(Request, frozen=True):
    """Drop the staged changes below a prefix."""

    branch: str
    prefix: str = ""

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        branch = state.branches.get(self.branch)
        if branch is None:
            return None
        layers = (
            tuple(each for each in layer if not each[0].startswith(self.prefix))
            for layer in branch.layers
        )
        remaining, epoch = tuple(each for each in layers if each), state.epoch + 1
        reset = replace(branch, layers=remaining, sealed=True, epoch=epoch)
        return replace(state, epoch=epoch).with_branch(self.branch, reset)


class Commit(Request, frozen=True):
    """Commit the changes staged at the first step. Later ones stay staged."""

    has_look: ClassVar[bool] = True
    makes_commit: ClassVar[bool] = True
    branch: str

    def look(self, state: State) -> tuple[State, Any] | None:
        return _sealed(state, self.branch)

    def is_current(self, state: State, view: Any) -> bool:
        branch = state.branches.get(self.branch)
        return branch is not None and (branch.head, branch.epoch) == view[:2]

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        branch = state.branches[self.branch]
        tree, dropped = applied(branch.head.tree, branch.layers[: view[2]]), view[2]
        if tree == branch.head.tree:
            is_possible = answer in (NOTHING, UNKNOWN)
            return state.moved(self.branch, branch.head, dropped) if is_possible else None
        if answer == NOTHING:
            return None
        return _committed(state, self.branch, (branch.head,), tree, answer, placeholder, dropped)


# --- commits from other commits -------------------------------------------------------------------


class Merge(Request, frozen=True):
    """Merge a ref, resolved at the first step, into a branch."""

    has_look: ClassVar[bool] = True
    makes_commit: ClassVar[bool] = True
    source: str
    dest: str
    strategy: Union[str, None] = None  # noqa: UP007  (as above)
    squash: bool = False

    def look(self, state: State) -> tuple[State, Any] | None:
        return _resolved(state, self.source)

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        branch = state.branches.get(self.dest)
        if branch is None:
            return None
        base, dest = base_tree(view, branch.head), branch.head
        tree = merged(base, view.tree, dest.tree, self.strategy)
        if tree is None or view.tree == base or (self.squash and tree == dest.tree):
            return None
        parents = (dest,) if self.squash or view == dest else (dest, view)
        return _committed(state, self.dest, parents, tree, answer, placeholder)


class _Replay(Request, frozen=True):
    makes_commit: ClassVar[bool] = True
    branch: str
    commit: str
    strategy: Union[str, None] = None  # noqa: UP007  (as above)

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        branch, commit = state.branches.get(self.branch), state.find(self.commit)
        if branch is None or commit is None:
            return None
        parent = commit.parents[0].tree if commit.parents else {}
        base, source = self.sides(parent, commit.tree)
        tree = merged(base, source, branch.head.tree, self.strategy)
        if tree is None or tree == branch.head.tree:
            return None
        return _committed(state, self.branch, (branch.head,), tree, answer, placeholder)

    def sides(self, parent: Tree, tree: Tree) -> tuple[Tree, Tree]:
        raise NotImplementedError


class Revert(_Replay, frozen=True):
    """Undo the change of a commit by a new commit."""

    def sides(self, parent: Tree, tree: Tree) -> tuple[Tree, Tree]:
        return tree, parent


class CherryPick(_Replay, frozen=True):
    """Repeat the change of a commit."""

    def sides(self, parent: Tree, tree: Tree) -> tuple[Tree, Tree]:
        return parent, tree


# --- moves and names ------------------------------------------------------------------------------


class HardReset(Request, frozen=True):
    """Move a branch to a commit id, and drop the changes staged at the first step."""

    has_look: ClassVar[bool] = True
    branch: str
    to: str

    def look(self, state: State) -> tuple[State, Any] | None:
        return _sealed(state, self.branch)

    def is_current(self, state: State, view: Any) -> bool:
        branch = state.branches.get(self.branch)
        return branch is not None and (branch.head, branch.epoch) == view[:2]

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        target = state.find(self.to)
        return None if target is None else state.moved(self.branch, target, view[2])


class Undo(Request, frozen=True):
    """Move a branch back to where it was before its latest move. The answer is that commit."""

    has_look: ClassVar[bool] = True
    branch: str

    def look(self, state: State) -> tuple[State, Any] | None:
        branch = state.branches.get(self.branch)
        if branch is None or branch.before is None:
            return None
        return state, (branch.head, branch.before)

    def is_current(self, state: State, view: Any) -> bool:
        branch = state.branches.get(self.branch)
        return branch is not None and branch.head == view[0]

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        after = state if answer is UNKNOWN else state.identify(view[1], answer)
        return None if after is None else after.moved(self.branch, view[1])


class _Creation(Request, frozen=True):
    """The creation of a name at a ref, resolved at the first step."""

    has_look: ClassVar[bool] = True
    name: str
    source: str

    def look(self, state: State) -> tuple[State, Any] | None:
        return _resolved(state, self.source)


class CreateBranch(_Creation, frozen=True):
    """Create a branch."""

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        if self.name in state.branches:
            return None
        epoch = state.epoch + 1
        return replace(state, epoch=epoch).with_branch(self.name, Branch(view, epoch=epoch))


class DeleteBranch(Request, frozen=True):
    """Delete a branch and its staged changes."""

    name: str

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        return state.with_branch(self.name, None) if self.name in state.branches else None


class CreateTag(_Creation, frozen=True):
    """Create a tag."""

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        if self.name in state.tags:
            return None
        return replace(state, tags={**state.tags, self.name: view})


class DeleteTag(Request, frozen=True):
    """Delete a tag."""

    name: str

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        if self.name not in state.tags:
            return None
        return replace(
            state, tags={each: at for each, at in state.tags.items() if each != self.name}
        )


# --- reads ----------------------------------------------------------------------------------------


class _Read(Request, frozen=True):
    is_read: ClassVar[bool] = True
    ref: str

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        tree = _tree(state, self.ref)
        return state if tree is not None and self.value(tree) == answer else None

    def value(self, tree: Tree) -> Any:
        raise NotImplementedError


class ReadObject(_Read, frozen=True):
    """Read the body of a path at a ref. The answer is None if there is no object."""

    path: str

    def value(self, tree: Tree) -> Any:
        return tree.get(self.path)


class ReadTree(_Read, frozen=True):
    """List all bodies at a ref, by path."""

    def value(self, tree: Tree) -> Any:
        return dict(tree)


class ReadHead(Request, frozen=True):
    """Resolve a ref to the id of its commit."""

    is_read: ClassVar[bool] = True
    ref: str

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        version = state.find(self.ref)
        return None if version is None else state.identify(version, answer)


class ReadLog(Request, frozen=True):
    """List the ids of a ref's commit and its first parents, the newest first."""

    is_read: ClassVar[bool] = True
    ref: str

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        version = state.find(self.ref)
        versions = list(first_parents(version)) if version else []
        after: State | None = state if len(versions) == len(answer) else None
        for each, name in zip(versions, answer, strict=False):
            after = after and after.identify(each, name)
        return after


class ReadRefs(Request, frozen=True):
    """List the ids of all branches and tags, by name."""

    is_read: ClassVar[bool] = True

    def act(self, state: State, view: Any, answer: Any, placeholder: str) -> State | None:
        heads = {name: each.head for name, each in state.branches.items()}
        branches, tags = answer["branches"], answer["tags"]
        if heads.keys() != branches.keys() or state.tags.keys() != tags.keys():
            return None
        after: State | None = state
        for versions, names in ((heads, branches), (state.tags, tags)):
            for each, version in versions.items():
                after = after and after.identify(version, names[each])
        return after


ANY_REQUEST = Union[  # noqa: UP007  (msgspec reads it on Python 3.10)
    Stage, Reset, Commit, Merge, Revert, CherryPick, HardReset, Undo, CreateBranch, DeleteBranch,
    CreateTag, DeleteTag, ReadObject, ReadTree, ReadHead, ReadLog, ReadRefs,
]  # fmt: skip


# --- shared steps ---------------------------------------------------------------------------------


def _resolved(state: State, ref: str) -> tuple[State, Version] | None:
    version = state.find(ref)
    return None if version is None else (state, version)


def _tree(state: State, ref: str) -> Tree | None:
    if ref in state.branches:
        return state.branches[ref].visible_tree()
    version = state.find(ref.removesuffix(BELOW))
    return None if version is None else version.tree


def _seen(branch: Branch) -> tuple[Version, int, int]:
    return branch.head, branch.epoch, len(branch.layers)


def _sealed(state: State, name: str) -> tuple[State, Any] | None:
    branch = state.branches.get(name)
    if branch is None:
        return None
    return state.with_branch(name, replace(branch, sealed=True)), _seen(branch)


def _committed(
    state: State,
    branch: str,
    parents: tuple[Version, ...],
    tree: Mapping[str, str],
    answer: Any,
    placeholder: str,
    dropped: int = 0,
) -> State | None:
    after = state.committed(parents, tree, None if answer is UNKNOWN else answer, placeholder)
    return None if after is None else state.moved(branch, after, dropped)
