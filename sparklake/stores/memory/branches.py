"""The branches of one repository, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sparklake.errors import AlreadyExistsError, RaceLostError
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchMove, BranchState, RefVerb
from sparklake.stores.memory.state import State


class MemoryBranches:
    """Holds the branches of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def create(self, name: str, commit_id: CommitId, who: str) -> BranchState:
        """Creates a branch."""
        state = self._state
        with state.lock:
            if name in state.branches:
                raise AlreadyExistsError(f"there is a branch {name!r} already")
            state.require_commit(commit_id)
            state.branches[name] = BranchState(name, commit_id)
            state.log(who, RefVerb.CREATE_BRANCH.value, name, None, commit_id)
            return state.branches[name]

    def find(self, name: str) -> BranchState | None:
        """Returns a branch and its layers."""
        return self._state.branches.get(name)

    def list(self) -> Sequence[BranchState]:
        """Returns all branches in the byte order of their names."""
        with self._state.lock:
            return sorted(self._state.branches.values(), key=lambda branch: branch.name.encode())

    def delete(self, name: str, who: str) -> None:
        """Deletes a branch and what is staged on it."""
        state = self._state
        with state.lock:
            branch = state.branch(name)
            state.drop_layers(branch, {layer.id for layer in branch.layers})
            del state.branches[name]
            state.log(who, RefVerb.DELETE_BRANCH.value, name, branch.commit_id, None)

    def move(self, move: BranchMove) -> None:
        """Applies a compare-and-swap."""
        state = self._state
        with state.lock:
            branch = state.branch(move.branch)
            sealed = {layer.id for layer in branch.layers if layer.sealed}
            if branch.commit_id != move.expected:
                raise RaceLostError(f"branch {move.branch!r} has moved to {branch.commit_id}")
            if not sealed.issuperset(move.applied_layers):
                raise RaceLostError(f"staged changes of {move.branch!r} were taken by another")
            if all(each.id != move.to for each in move.commits):
                state.require_commit(move.to)
            for each in move.commits:
                state.commits.setdefault(each.id, each)
            moved = replace(branch, commit_id=move.to)
            state.branches[move.branch] = state.drop_layers(moved, set(move.applied_layers))
            if move.to != move.expected:
                state.log(move.who, move.verb, move.branch, move.expected, move.to)

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        """Holds the turn of a branch, after those who asked for it before."""
        with self._state.lock:
            lock = self._state.turns[name]
        is_held = lock.acquire(timeout=seconds)
        try:
            yield
        finally:
            if is_held:
                lock.release()

    def is_turn_held(self, name: str) -> bool:
        """Tells whether someone holds the turn of a branch."""
        with self._state.lock:
            return self._state.turns[name].locked()
