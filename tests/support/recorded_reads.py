"""A record of the parts of files, and of the states of branches, that a test reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from sparklake.graveler.planning.plan import SideStream
from sparklake.graveler.ports import ContentPart, Layer
from sparklake.stores.objects.local.store import LocalStore
from sparklake.verbs.base.staging import StagedLayers


@contextmanager
def recorded_parts() -> Iterator[list[int]]:
    """Record the size of each part of a file that local stores read."""
    sizes: list[int] = []
    get_part = LocalStore.get_part

    def noting(store: LocalStore, key: str, start: int, stop: int) -> ContentPart:
        found = get_part(store, key, start, stop)
        sizes.append(len(found.body))
        return found

    with mock.patch.object(LocalStore, "get_part", noting):
        yield sizes


@contextmanager
def recorded_states() -> Iterator[list[Sequence[Layer]]]:
    """Record the staging layers of each state of a branch that is read."""
    states: list[Sequence[Layer]] = []
    sides = StagedLayers.sides

    def noting(staged: StagedLayers, layers: Sequence[Layer]) -> list[SideStream]:
        states.append(layers)
        return sides(staged, layers)

    with mock.patch.object(StagedLayers, "sides", noting):
        yield states
