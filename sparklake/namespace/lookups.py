"""Lookups of many objects at once."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.graveler.ports import ObjectStore
from sparklake.interrupts import Threads

OBJECT_THREADS = 16


def find_missing(store: ObjectStore, keys: Sequence[str]) -> str | None:
    """Return the first key without an object, or None."""
    with Threads(OBJECT_THREADS, "sparklake-look") as threads:
        results = zip(keys, threads.map(store.find, keys), strict=True)
        return next((key for key, each in results if each is None), None)
