"""Files below `_sparklake/` that crashes have left, and that no verb reads again."""

from __future__ import annotations

from collections.abc import Iterator

from sparklake.graveler.ports import ObjectStore, StoredObject

CHECKS_FOLDER = "_sparklake/checks"
"""The folder of all checks in a namespace."""

REPORT_NAME = "report.json"
"""The name of a check's report, which is written at its end."""

PROBE_PREFIX = "_sparklake/probe-"
"""The prefix of files that only show whether a namespace is writable."""


def unfinished_checks(store: ObjectStore) -> dict[str, list[StoredObject]]:
    """Return the files of checks that have no report, by folder."""
    folders: dict[str, list[StoredObject]] = {}
    for each in store.list(f"{CHECKS_FOLDER}/"):
        name = each.key.removeprefix(f"{CHECKS_FOLDER}/").partition("/")[0]
        folders.setdefault(f"{CHECKS_FOLDER}/{name}/", []).append(each)
    return {
        folder: files
        for folder, files in folders.items()
        if all(each.key != f"{folder}{REPORT_NAME}" for each in files)
    }


def probes(store: ObjectStore) -> Iterator[StoredObject]:
    """Yield the files that a killed process has left after it looked whether it may write."""
    yield from store.list(PROBE_PREFIX)


def abandoned_keys(store: ObjectStore, before: int) -> Iterator[str]:
    """Yield the keys of leftovers whose last write was before a time in unix nanoseconds."""
    for each in probes(store):
        if each.mtime < before:
            yield each.key
    for files in unfinished_checks(store).values():
        if all(each.mtime < before for each in files):
            yield from (each.key for each in files)
