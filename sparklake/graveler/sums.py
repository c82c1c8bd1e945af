"""Sums of sizes, which stop at the largest number of 64 bits instead of wrapping.

Sizes are numbers that others wrote: a few absurd ones must not make a sum negative.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparklake.graveler.blocks.columns import Positions

MAX_SUM = (1 << 63) - 1


def bounded(total: int) -> int:
    """Return a sum, or MAX_SUM if it is larger."""
    return min(total, MAX_SUM)


def bounded_sum(sizes: Iterable[int]) -> int:
    """Return the sum of sizes, MAX_SUM at most."""
    return bounded(sum(sizes))


def column_sum(sizes: Positions) -> int:
    """Return the sum of a column of sizes, MAX_SUM at most."""
    return int(sizes.sum()) if _is_safe(sizes) else bounded_sum(sizes.tolist())


def run_sums(sizes: Positions, starts: Positions) -> Positions:
    """Return the sum of each run of sizes, MAX_SUM at most; `starts` has where the runs begin."""
    if _is_safe(sizes):
        return np.add.reduceat(sizes, starts)
    exact = np.add.reduceat(sizes.astype(object), starts)
    return np.minimum(exact, MAX_SUM).astype(np.int64)


def _is_safe(sizes: Positions) -> bool:
    """Return whether no sum of the sizes can pass 64 bits."""
    return not len(sizes) or int(sizes.max()) <= MAX_SUM // len(sizes)
