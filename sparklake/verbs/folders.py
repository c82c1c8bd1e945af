"""List one level: what lies right under a prefix, as a file system would show it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

from sparklake.graveler.keys import Interval, prefix_end
from sparklake.udfs.objects import ObjectInfo
from sparklake.verbs.context import Context
from sparklake.verbs.read import list_objects

SKIPPED_ROWS = 16_384
"""After how many rows of one folder its rest is jumped over, which opens ranges anew."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Is all objects whose path begins with `path`, which ends in '/'."""

    path: str


def list_folder(context: Context, ref: str, prefix: str) -> Iterator[ObjectInfo | Folder]:
    """Yields objects and folders right under a prefix in the byte order of their paths."""
    rows = list_objects(context, ref, prefix)
    end = prefix_end(prefix.encode())
    start: bytes | None = prefix.encode()
    while start is not None:
        start = yield from _level(rows.within(Interval(start, end)), prefix)


def _level(
    objects: Iterable[ObjectInfo], prefix: str
) -> Generator[ObjectInfo | Folder, None, bytes | None]:
    """Yields a level; returns the key from which to go on, None when nothing is left."""
    folder, skipped = "", 0
    for each in objects:
        if folder and each.path.startswith(folder):
            skipped += 1
            if skipped == SKIPPED_ROWS:
                return prefix_end(folder.encode())
            continue
        name, slash, _ = each.path.removeprefix(prefix).partition("/")
        folder, skipped = (f"{prefix}{name}/" if slash else ""), 0
        yield Folder(folder) if folder else each
    return None
