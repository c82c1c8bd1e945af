"""Mutations of the real code: each removes one guard. Simulations must find a violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from sparklake.graveler.guards import Action
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports import BranchMove, BranchState, ObjectStore
from sparklake.layout import sweep_claim_key
from sparklake.testing.memory.branches import MemoryBranches
from sparklake.testing.memory.staging import MemoryStaging
from sparklake.verbs.gc.runs import Sweep


def _never(_: object) -> bool:
    return False


def _none(*_: object) -> tuple[str, ...]:
    return ()


def _restored(store: ObjectStore, own: Sequence[Any]) -> bool:
    """Put missing objects of the lake back to their addresses."""
    root = f"{store.uri}/"
    for each in own:
        if store.find(each.theirs.removeprefix(root)) is None:
            body = store.get(each.ours.removeprefix(root))
            store.put_if_absent(each.theirs.removeprefix(root), body)
    return False


def _no_rows(_: object) -> Iterator[Any]:
    return iter(())


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing, in place of a check."""


def _replaced(by: Callable[..., Any], *names: str) -> Callable[[], AbstractContextManager[Any]]:
    """Return a mutation to replace functions, each in its calling module."""

    @contextmanager
    def removed() -> Iterator[None]:
        with ExitStack() as patches:
            for each in names:
                patches.enter_context(mock.patch(each, by))
            yield

    return removed


@contextmanager
def _moves(edit: Callable[[MemoryBranches, BranchMove], BranchMove]) -> Iterator[None]:
    move = MemoryBranches.move

    def edited(self: MemoryBranches, request: BranchMove) -> None:
        move(self, edit(self, request))

    with mock.patch.object(MemoryBranches, "move", edited):
        yield


def _without_head(branches: MemoryBranches, move: BranchMove) -> BranchMove:
    return replace(move, expected=branches._state.branch(move.branch).commit_id)


def _without_layers(branches: MemoryBranches, move: BranchMove) -> BranchMove:
    there = {each.id for each in branches._state.branch(move.branch).layers if each.sealed}
    return replace(
        move, applied_layers=tuple(each for each in move.applied_layers if each in there)
    )


@contextmanager
def _without_seal() -> Iterator[None]:
    """Read the layers of a branch without sealing them, and seal them when they are applied."""
    seal = MemoryStaging.seal

    def look(self: MemoryStaging, branch: str, action: Action | None = None) -> BranchState:
        return self._state.seen(self._open(branch, action), force=self._force)

    def sealing(branches: MemoryBranches, move: BranchMove) -> BranchMove:
        seal(MemoryStaging(branches._state), move.branch)
        return move

    with mock.patch.object(MemoryStaging, "seal", look), _moves(sealing):
        yield


@contextmanager
def _without_claims() -> Iterator[None]:
    """Let a sweep continue after another collection ends it."""

    def write(sweep: Sweep, garbage: MetaRangeId) -> None:
        sweep.store.put_if_absent(sweep_claim_key(sweep.run_id, sweep.marker), garbage.encode())

    with (
        mock.patch.object(Sweep, "decide", write),
        _replaced(
            _nothing, "sparklake.udfs.gc.check_sweep", "sparklake.verbs.gc.collect.check_sweep"
        )(),
    ):
        yield


@dataclass(frozen=True, slots=True)
class MissingGuard:
    """A guard, missing within the context of `removed`. The seed finds that it is."""

    seed: int
    removed: Callable[[], AbstractContextManager[Any]]


MISSING_GUARDS = {
    "the fence is not compared": MissingGuard(
        31, _replaced(_nothing, "sparklake.testing.memory.state.check_fence")
    ),
    "the head is not compared": MissingGuard(57, lambda: _moves(_without_head)),
    "the applied layers are not compared": MissingGuard(519, lambda: _moves(_without_layers)),
    "layers are read before they are sealed": MissingGuard(3, _without_seal),
    "adopted ranges are not checked": MissingGuard(
        32, _replaced(_none, "sparklake.udfs.range_sink.find_dead")
    ),
    "deleted objects are restored at their addresses": MissingGuard(
        89, _replaced(_restored, "sparklake.udfs.adopted_ranges._lacks_objects")
    ),
    "adoption does not look for an open sweep": MissingGuard(
        31,
        _replaced(
            _never,
            "sparklake.udfs.adopted_ranges.is_sweep_open",
            "sparklake.namespace.markers.is_sweep_open",
        ),
    ),
    "a sweep continues after its end": MissingGuard(206, _without_claims),
    "a collection ignores staged rows": MissingGuard(
        1, _replaced(_no_rows, "sparklake.verbs.gc.collect._staged_rows")
    ),
    "tree files of an open sweep are used": MissingGuard(
        7800, _replaced(_none, "sparklake.namespace.swept_tree_files._candidates")
    ),
    "a purge deletes objects of branches": MissingGuard(
        53, _replaced(_nothing, "sparklake.verbs.purges.purge._refuse_live")
    ),
}
"""Guards by the fault without them."""
