"""Files below `_sparklake/` that crashes have left, and that no verb reads again."""

from __future__ import annotations

from collections.abc import Iterator

from sparklake.graveler.ports import ObjectStore, StoredObject
from sparklake.namespace.layout import CHECKS_FOLDER, OPEN_CHECKS, PROBE_PREFIX, REPORT_NAME


def unfinished_checks(store: ObjectStore) -> dict[str, list[StoredObject]]:
    """Return the exchanged files of checks that have not ended, by the id of the check.

    Reports are not read, however many there are.
    """
    prefix = f"{CHECKS_FOLDER}{OPEN_CHECKS}"
    found: dict[str, list[StoredObject]] = {}
    for each in store.list(prefix):
        found.setdefault(each.key.removeprefix(prefix).partition("/")[0], []).append(each)
    return found


def probes(store: ObjectStore) -> Iterator[StoredObject]:
    """Yield the files that a killed process has left after it looked whether it may write."""
    yield from store.list(PROBE_PREFIX)


def abandoned_keys(store: ObjectStore, before: int) -> Iterator[str]:
    """Yield the keys of leftovers whose last write was before a time in unix nanoseconds."""
    for each in probes(store):
        if each.mtime < before:
            yield each.key
    for check_id, files in unfinished_checks(store).items():
        if all(each.mtime < before for each in files):
            report = [each.key for each in store.list(f"{CHECKS_FOLDER}{check_id}/")]
            if f"{CHECKS_FOLDER}{check_id}/{REPORT_NAME}" not in report:
                yield from report
            yield from (each.key for each in files)
