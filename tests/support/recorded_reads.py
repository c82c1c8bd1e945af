"""Records of file parts and branch states read by a test."""

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
    """Record the size of each file part read by local stores."""
    sizes: list[int] = []
    get_part = LocalStore.get_part

    def noting(store: LocalStore, key: str, start: int, stop: int) -> ContentPart:
        part = get_part(store, key, start, stop)
        sizes.append(len(part.body))
        return part

    with mock.patch.object(LocalStore, "get_part", noting):
        yield sizes


@contextmanager
def recorded_states() -> Iterator[list[Sequence[Layer]]]:
    """Record the staging layers of each branch state read."""
    states: list[Sequence[Layer]] = []
    sides = StagedLayers.sides

    def noting(staged: StagedLayers, layers: Sequence[Layer]) -> list[SideStream]:
        states.append(layers)
        return sides(staged, layers)

    with mock.patch.object(StagedLayers, "sides", noting):
        yield states
