"""Branches and tags of one repository, in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from sparklake.errors import AlreadyExistsError, DirtyBranchError, RaceLostError, RefNotFoundError
from sparklake.graveler.guards import Action, actions_of
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchMove, BranchState, RefVerb, TagInfo
from sparklake.graveler.ports.once import OnceRecord
from sparklake.graveler.refs.names import name_taken
from sparklake.testing.memory.state import StateView


class MemoryBranches(StateView):
    def create(
        self,
        name: str,
        commit_id: CommitId,
        who: str,
        *,
        hidden: bool = False,
        lifetime: timedelta | None = None,
        once: OnceRecord | None = None,
    ) -> BranchState:
        state = self._state
        with state.changing(once):
            state.require_writable(force=self._force)
            state.check_kept(commit_id)
            if name in state.tags:
                raise name_taken("tag", name)
            if name in state.branches:
                raise AlreadyExistsError(
                    f"the branch {name!r} already exists; --exist-ok accepts it"
                )
            state.require_commit(commit_id)
            state.branches[name] = BranchState(
                name,
                commit_id,
                hidden=hidden,
                expires=_end(lifetime),
                guard=state.settings.guard(name),
            )
            state.log(who, RefVerb.CREATE_BRANCH.value, name, None, commit_id)
            return state.seen(state.branches[name], force=self._force)

    def find(self, name: str) -> BranchState | None:
        branch = self._state.branches.get(name)
        return branch and self._state.seen(branch, force=self._force)

    def list(self) -> Sequence[BranchState]:
        with self._state.lock:
            branches = sorted(self._state.branches.values(), key=lambda each: each.name.encode())
            return [self._state.seen(each, force=self._force) for each in branches]

    def delete(
        self, name: str, who: str, *, discard_staged: bool = False, if_expired: bool = False
    ) -> None:
        state = self._state
        with state.lock:
            branch = state.open_branch(name, Action.DELETE, force=self._force)
            if if_expired and not state.seen(branch, force=self._force).may_be_pruned:
                raise RaceLostError(f"branch {name!r} is protected, or has not expired")
            if branch.layers and not discard_staged:
                raise DirtyBranchError.of_deletion(name)
            state.drop_layers(branch, {layer.id for layer in branch.layers})
            del state.branches[name]
            verb = RefVerb.PRUNE_BRANCH if if_expired else RefVerb.DELETE_BRANCH
            state.log(who, verb.value, name, branch.commit_id, None)

    def rename(
        self, name: str, new_name: str, who: str, *, once: OnceRecord | None = None
    ) -> BranchState:
        state = self._state
        with state.changing(once):
            state.require_writable(force=self._force)
            if new_name in state.tags:
                raise name_taken("tag", new_name)
            branch = state.open_branch(name, Action.DELETE, force=self._force)
            if new_name in state.branches:
                raise AlreadyExistsError(f"the branch {new_name!r} already exists: choose another")
            state.settings = state.settings.with_renamed_branch(name, new_name)
            del state.branches[name]
            state.branches[new_name] = replace(
                branch,
                name=new_name,
                layers=tuple(replace(each, sealed=True) for each in branch.layers),
                guard=state.settings.guard(new_name),
            )
            verb = RefVerb.RENAME_BRANCH.value
            state.log(who, verb, name, branch.commit_id, None)
            state.log(who, verb, new_name, None, branch.commit_id)
            return state.seen(state.branches[new_name], force=self._force)

    def set_lifetime(self, name: str, lifetime: timedelta | None) -> BranchState:
        state = self._state
        with state.lock:
            branch = state.open_branch(name, None, force=self._force)
            state.branches[name] = replace(branch, expires=_end(lifetime))
            return state.seen(state.branches[name], force=self._force)

    def move(self, move: BranchMove) -> None:
        state = self._state
        with state.changing(move.once):
            actions = actions_of(move.verb)
            branch = state.open_branch(move.branch, *actions, force=self._force, fence=move.fence)
            sealed = {layer.id for layer in branch.layers if layer.sealed}
            if branch.commit_id != move.expected:
                raise RaceLostError(f"branch {move.branch!r} has moved to {branch.commit_id}")
            if move.latest is not None and move.latest != state.latest_operation(move.branch):
                raise RaceLostError(f"branch {move.branch!r} has moved, and moved back")
            if move.runs is not None and not branch.runs <= move.runs:
                raise RaceLostError.of_new_run(move.branch)
            if not sealed.issuperset(move.applied_layers):
                raise RaceLostError(
                    f"another writer has committed or dropped staged changes of {move.branch!r}"
                )
            if all(each.id != move.to for each in move.commits):
                state.require_commit(move.to)
                state.check_kept(move.to)
            for each in move.commits:
                state.commits.setdefault(each.id, each)
                state.expired.pop(each.id, None)
                state.collected.discard(each.id)
            for commit_id, touched in move.change_summaries.items():
                state.change_summaries.setdefault(commit_id, touched)
            moved = replace(branch, commit_id=move.to)
            if move.cut is not None:
                state.cut_layers(moved, move.applied_layers, move.cut)
            else:
                state.branches[move.branch] = state.drop_layers(moved, set(move.applied_layers))
            if move.to != move.expected:
                state.log(move.who, move.verb, move.branch, move.expected, move.to)

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        with self._state.turn(name, seconds):
            yield

    def is_turn_held(self, name: str) -> bool:
        with self._state.lock:
            return self._state.turns[name].locked()


def _end(lifetime: timedelta | None) -> int | None:
    return None if lifetime is None else int(time.time() + lifetime.total_seconds())


class MemoryTags(StateView):
    def create(self, tag: TagInfo, who: str, *, once: OnceRecord | None = None) -> None:
        state, name = self._state, tag.name
        with state.changing(once):
            state.require_writable(force=self._force)
            state.check_kept(tag.commit_id)
            if name in state.branches:
                raise name_taken("branch", name)
            if name in state.tags:
                raise AlreadyExistsError(f"the tag {name!r} already exists; --exist-ok accepts it")
            state.require_commit(tag.commit_id)
            state.tags[name] = tag
            state.log(who, RefVerb.CREATE_TAG.value, name, None, tag.commit_id)

    def find(self, name: str) -> TagInfo | None:
        return self._state.tags.get(name)

    def list(self) -> Sequence[TagInfo]:
        with self._state.lock:
            return sorted(self._state.tags.values(), key=lambda tag: tag.name.encode())

    def delete(self, name: str, who: str) -> None:
        state = self._state
        with state.lock:
            state.require_writable(force=self._force)
            if name not in state.tags:
                raise RefNotFoundError(f"there is no tag {name!r}")
            tag = state.tags.pop(name)
            state.log(who, RefVerb.DELETE_TAG.value, name, tag.commit_id, None)
