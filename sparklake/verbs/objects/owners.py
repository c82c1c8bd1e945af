"""The table that owns a path: the innermost one with metadata at or above a folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from sparklake.errors import CorruptFileError, ExpiredError, MissingFileError
from sparklake.graveler.keys import Interval, key_prefix, prefix_interval
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.graveler.planning.plan import SideStream, rows_in
from sparklake.graveler.ports import BranchState
from sparklake.graveler.ranges import Ranges
from sparklake.metadata import registry
from sparklake.metadata.delta.table_files import is_hidden
from sparklake.metadata.formats import MetadataFiles
from sparklake.verbs.base.context import Context
from sparklake.verbs.objects.list import Folder, list_level

_LOG = logging.getLogger("sparklake.tables")

_MAX_FOLDERS = 100
"""The maximum number of folders of staged files that are examined."""

_WARNED: set[tuple[str, str, str]] = set()
"""The repositories, branches and tables with a warning."""


@dataclass(frozen=True, slots=True)
class OwningTable:
    """A table with metadata. `metadata` is the path of an identifying file."""

    kind: MetadataFiles
    folder: str
    metadata: str

    @property
    def format(self) -> str:
        return self.kind.name

    @property
    def metadata_folder(self) -> bytes:
        return key_prefix(self.metadata[: self.metadata.rfind("/") + 1])


def find_owner(
    context: Context, base: Ranges, staged: Sequence[SideStream], folder: str
) -> OwningTable | None:
    """Return the innermost table with metadata at or above a folder, or None.

    The tree is read under staged layers, newest first, which need only the rows of `mark_prefixes`.
    Without keys in possible metadata folders, this takes a few lookups and no listing.
    """
    places = {
        prefix_interval(key_prefix(above + each.folder)): (above, each)
        for above in _folders(folder)
        for each in registry.all_formats()
    }
    holders = set(context.open_ranges.holding(base, list(places)))
    for side in staged:
        holders.update(context.open_ranges.holding(side.ranges, list(places)))
        holders.update(each for each in places if rows_in(side, each))
    for interval in (each for each in places if each in holders):
        above, table_format = places[interval]
        mark = _find_mark(context, base, staged, above, table_format)
        if mark is not None:
            return OwningTable(table_format, above, mark)
    return None


def warn_of_keys(context: Context, state: BranchState, keys: Sequence[bytes]) -> None:
    """Warn about files to stage in tables of a branch's head, without any of their metadata."""
    _warn(context, state, keys, lambda interval: any(key in interval for key in keys))


def warn_of_ranges(
    context: Context, state: BranchState, ranges: Ranges, selected: PathFilter | None = None
) -> None:
    """Warn as `warn_of_keys` does, by the edges of ranges. Verbs may select the metadata, too."""
    keys = [key for each in ranges[:_MAX_FOLDERS] for key in (each.min_key, each.max_key)]

    def holds(interval: Interval) -> bool:
        parts = () if selected is None else selected.parts(interval)
        return bool(parts or context.open_ranges.holding(ranges, [interval]))

    _warn(context, state, keys, holds)


def _warn(
    context: Context, state: BranchState, keys: Iterable[bytes], holds: Callable[[Interval], bool]
) -> None:
    folders = dict.fromkeys(key[: key.rfind(b"/") + 1] for key in keys if not is_hidden(key))
    # Readers of a damaged or collected tree report it.
    with suppress(MissingFileError, CorruptFileError, ExpiredError):
        tree = context.tree(context.graph.head(state)).ranges
        for folder in islice(folders, _MAX_FOLDERS):
            name = folder.decode(errors="replace")
            table = find_owner(context, tree, (), name)
            if table is not None and not holds(prefix_interval(table.metadata_folder)):
                _warn_once(context, state, name, table)


def _warn_once(context: Context, state: BranchState, name: str, table: OwningTable) -> None:
    place = (context.info.uid, state.name, table.folder)
    if place not in _WARNED:
        _WARNED.add(place)
        _LOG.warning(
            "the files staged in %r are inside the %s table %r of %r, and only its metadata "
            "decides whether their rows are read: write rows with the format %r, or choose "
            "another path",
            name,
            table.format,
            table.folder.rstrip("/") or "/",
            state.name,
            table.format.lower(),
        )


def mark_prefixes(folder: str) -> list[bytes]:
    formats = registry.all_formats()
    return [key_prefix(above + each.folder) for above in _folders(folder) for each in formats]


def _folders(folder: str) -> Iterator[str]:
    parts = folder.strip("/").split("/")
    for count in range(len(parts), 0, -1):
        yield "/".join(parts[:count]) + "/"
    yield ""


def _find_mark(
    context: Context,
    base: Ranges,
    staged: Sequence[SideStream],
    above: str,
    table_format: MetadataFiles,
) -> str | None:
    folder = above + table_format.folder
    for prefix in table_format.prefixes:
        for each in list_level(context, base, staged, folder + prefix, table_format.pattern):
            if not (table_format.pattern and isinstance(each, Folder)):
                return each.path
    return None
