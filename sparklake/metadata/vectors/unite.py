"""The union of the deletion vectors of one file on two sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparklake.metadata.vectors.bitmaps import Positions


@dataclass(frozen=True, slots=True)
class VectorUnion:
    """The deleted rows after the changes of both sides."""

    rows: Positions


@dataclass(frozen=True, slots=True)
class VectorOverlap:
    """The rows deleted, or restored, by both sides."""

    rows: Positions


def unite_vectors(
    base: Positions, source: Positions, dest: Positions
) -> VectorUnion | VectorOverlap:
    """Apply source's changes since base to dest.

    A row is deleted or not, so a row that both sides changed is one that both deleted or both
    restored. Without restored rows, the union is `source | dest`, and the overlap
    `(source & dest) - base`.
    """
    changes = np.setxor1d(base, source, assume_unique=True)
    overlap = np.intersect1d(
        changes, np.setxor1d(base, dest, assume_unique=True), assume_unique=True
    )
    if len(overlap):
        return VectorOverlap(overlap)
    return VectorUnion(np.setxor1d(dest, changes, assume_unique=True))
