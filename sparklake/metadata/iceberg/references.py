"""Files referenced by table metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sparklake.metadata.iceberg.documents import Document
from sparklake.metadata.iceberg.manifests import Manifest, live_files, manifests_in

Reference = tuple[str, int | None]
"""A path, and the size of the file if the metadata has it."""


def references(
    document: Document, read: Callable[[str], bytes], follows: Callable[[str], bool]
) -> Iterator[Reference]:
    """Yield the files of all snapshots, each at least once.

    Only lists and manifests that it `follows` are read. Entries of removed files are ignored.
    """
    manifests = dict[str, Manifest]()
    for snapshot in document.get("snapshots") or []:
        path = snapshot.get("manifest-list")
        if path is None:
            manifests.update((each, Manifest(each)) for each in snapshot.get("manifests") or [])
        elif follows(path):
            yield path, None
            manifests.update((each.path, each) for each in manifests_in(read(path)))
    for path, manifest in manifests.items():
        yield path, manifest.length
        if follows(path):
            yield from ((each.path, each.size) for each in live_files(read(path), manifest))
    for each in _statistics(document):
        yield each["statistics-path"], each.get("file-size-in-bytes")


def _statistics(document: Document) -> Iterator[Any]:
    for kind in ("statistics", "partition-statistics"):
        yield from document.get(kind) or []
