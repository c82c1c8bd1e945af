"""Orders of overwrites on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol


class Region(Protocol):
    """Rows that a commit may replace. `name` describes them."""

    @property
    def name(self) -> str: ...
    @property
    def is_all(self) -> bool: ...
    def may_have(self, add: Any) -> bool:
        """Return whether rows of an added file may be inside."""


@dataclass(frozen=True, slots=True)
class SideCommit:
    """A commit of a side: its overwritten region and its added files that are still live."""

    region: Region | None
    adds: Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Order:
    """The positions of an overwrite and of the commit it must precede."""

    overwrite: int
    added: int
    region: Region


def find_circle(source: Sequence[SideCommit], dest: Sequence[SideCommit]) -> Region | None:
    """Return the region of two overwrites with a cyclic order, or None."""
    if not all(any(step.region for step in steps) for steps in (source, dest)):
        return None
    dest_orders = list(_orders(dest, source))
    for one in _orders(source, dest):
        for other in dest_orders:
            if other.added <= one.overwrite and one.added <= other.overwrite:
                return min(one.region, other.region, key=lambda each: each.is_all)
    return None


def _orders(overwriters: Sequence[SideCommit], others: Sequence[SideCommit]) -> Iterator[_Order]:
    """Yield each overwrite with the first commit that it must precede, if any."""
    for place, step in enumerate(overwriters):
        region = step.region
        if region is not None:
            later = (at for at, other in enumerate(others) if any(map(region.may_have, other.adds)))
            yield from (_Order(place, at, region) for at in islice(later, 1))
