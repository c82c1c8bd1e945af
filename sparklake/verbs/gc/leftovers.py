"""Leftovers of crashes besides unnamed objects, which a collection removes."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta

from sparklake.errors import StorePermissionError
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.times import SECOND
from sparklake.namespace.leftovers import abandoned_keys
from sparklake.stores.objects.temporary import ABANDONED_SECONDS, remove_temporary


def remove_leftovers(store: ObjectStore, grace: timedelta) -> int:
    """Remove the files of dead processes that no verb will read again; return their number.

    A file is removed when it is older than the grace period and older than a day, because a living
    process may still use it.
    """
    age = max(grace.total_seconds(), ABANDONED_SECONDS)
    before = time.time_ns() - int(age * SECOND)
    removed = 0
    # The permission to delete garbage need not include these files.
    with suppress(StorePermissionError):
        removed += remove_temporary(store, before)
        for each in list(abandoned_keys(store, before)):
            store.delete(each)
            removed += 1
    return removed
