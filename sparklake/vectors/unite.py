"""The union of the deletion vectors of one file on two sides."""

from __future__ import annotations

import numpy as np

from sparklake.vectors.bitmaps import Positions


def unite_vectors(
    base: Positions, source: Positions, dest: Positions
) -> tuple[Positions, Positions]:
    """Apply source's changes since base to dest.

    Return the union, and the overlap: the rows that both sides changed. The union is valid only
    without overlap. A row is deleted or not, so a row that both sides changed is one that both
    deleted or both restored. Without restored rows, the union is `source | dest`, and the overlap
    `(source & dest) - base`.
    """
    changes = np.setxor1d(base, source, assume_unique=True)
    overlap = np.intersect1d(
        changes, np.setxor1d(base, dest, assume_unique=True), assume_unique=True
    )
    return np.setxor1d(dest, changes, assume_unique=True), overlap
