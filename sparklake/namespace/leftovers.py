"""Crash leftovers below `_sparklake/`, and their removal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

from sparklake.errors import StorePermissionError
from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.graveler.times import SECOND
from sparklake.layout import CHECKS_FOLDER, OPEN_CHECKS, PROBE_PREFIX, REPORT_NAME
from sparklake.stores.objects.temporary import ABANDONED_SECONDS, remove_temporary


def unfinished_checks(store: ObjectStore) -> dict[str, list[StoredObject]]:
    """Return the exchanged files of unfinished checks, by check. Reads no reports."""
    prefix = f"{CHECKS_FOLDER}{OPEN_CHECKS}"
    by_check: dict[str, list[StoredObject]] = {}
    for each in store.list(prefix):
        by_check.setdefault(each.key.removeprefix(prefix).partition("/")[0], []).append(each)
    return by_check


def probes(store: ObjectStore) -> Iterator[StoredObject]:
    yield from store.list(PROBE_PREFIX)


def abandoned_keys(store: ObjectStore, before: int) -> Iterator[str]:
    """Yield the keys of leftovers last written before a time in unix nanoseconds."""
    for each in probes(store):
        if each.mtime < before:
            yield each.key
    for check_id, files in unfinished_checks(store).items():
        if all(each.mtime < before for each in files):
            report = [each.key for each in store.list(f"{CHECKS_FOLDER}{check_id}/")]
            if f"{CHECKS_FOLDER}{check_id}/{REPORT_NAME}" not in report:
                yield from report
            yield from (each.key for each in files)


def remove_leftovers(store: ObjectStore, grace: timedelta) -> int:
    """Remove leftovers older than the grace period and a day; return their number."""
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
