"""Sums of sizes, capped at the largest signed 64-bit integer instead of wrapping.

Sizes come from other programs. A few absurd sizes must not make a sum negative.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparklake.graveler.buffers import Positions

MAX_SUM = (1 << 63) - 1


def bounded(total: int) -> int:
    """Return a sum, capped at MAX_SUM."""
    return min(total, MAX_SUM)


def bounded_sum(sizes: Iterable[int]) -> int:
    """Return the sum of sizes, capped at MAX_SUM."""
    return bounded(sum(sizes))


def column_sum(sizes: Positions) -> int:
    """Return the sum of a column of sizes, capped at MAX_SUM."""
    return int(sizes.sum()) if _is_safe(sizes) else bounded_sum(sizes.tolist())


def run_sums(sizes: Positions, starts: Positions) -> Positions:
    """Return the sum of each run of sizes, capped at MAX_SUM.

    `starts` are the positions where the runs begin.
    """
    if _is_safe(sizes):
        return np.add.reduceat(sizes, starts)
    exact = np.add.reduceat(sizes.astype(object), starts)
    return np.minimum(exact, MAX_SUM).astype(np.int64)


def _is_safe(sizes: Positions) -> bool:
    """Return whether the sum of the sizes fits in 64 bits."""
    return not len(sizes) or int(sizes.max()) <= MAX_SUM // len(sizes)
