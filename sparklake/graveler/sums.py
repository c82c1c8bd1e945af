"""Sums of sizes, capped at 64 bits: other programs may write absurd sizes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparklake.graveler.buffers import Positions

MAX_SUM = (1 << 63) - 1


def bounded(total: int) -> int:
    return min(total, MAX_SUM)


def bounded_sum(sizes: Iterable[int]) -> int:
    return bounded(sum(sizes))


def column_sum(sizes: Positions) -> int:
    return int(sizes.sum()) if _is_safe(sizes) else bounded_sum(sizes.tolist())


def run_sums(sizes: Positions, starts: Positions) -> Positions:
    """Return the sum of each run. The runs start at `starts`."""
    if _is_safe(sizes):
        return np.add.reduceat(sizes, starts)
    exact = np.add.reduceat(sizes.astype(object), starts)
    return np.minimum(exact, MAX_SUM).astype(np.int64)


def _is_safe(sizes: Positions) -> bool:
    """Return whether the sum of the sizes fits in 64 bits."""
    return not len(sizes) or int(sizes.max()) <= MAX_SUM // len(sizes)
