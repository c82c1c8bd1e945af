"""Tables of formats that sparklake does not support: Iceberg, Hudi, Lance.

The files of such a table are Parquet or similar, and some of them contain rows that were later
overwritten or deleted. Only the table's own metadata tells which rows are valid. So nothing in the
folder of such a table is read as plain files, and nothing is written there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from sparklake.errors import InvalidInputError
from sparklake.udfs.objects.rows import ObjectInfo

_LOOKED_AT = 1000
"""The number of files of a folder that are checked. Metadata files sort among the first."""


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A table format, and the files that identify such a table."""

    name: str
    prefixes: tuple[str, ...]
    suffixes: tuple[str, ...] = ("",)


_FORMATS = (
    # Catalogs number the files, 00000-ID.metadata.json. Without a catalog they are
    # v1.metadata.json.
    OtherFormat(
        "Iceberg",
        ("metadata/", "metadata/v"),
        (".metadata.json", ".metadata.json.gz", "metadata/version-hint.text"),
    ),
    OtherFormat("Hudi", (".hoodie/",)),
    OtherFormat("Lance", ("_versions/",)),
)
_NAMES = {each.name.lower(): each.name for each in _FORMATS}

Listing = Callable[[str], Iterable[ObjectInfo]]
"""A function that lists the objects under a prefix, in the order of their paths."""


@dataclass(frozen=True, slots=True)
class OtherTable:
    """A table of another format. `found` is the path of a file that identifies it."""

    format: str
    folder: str
    found: str


def find_other_table(listing: Listing, folder: str) -> OtherTable | None:
    """Return the table of another format at or above a folder, or None.

    The cost is a few lookups for each part of the folder's path, without a scan.
    """
    for above in _folders(folder):
        for each in _FORMATS:
            found = _find_mark(listing, above, each)
            if found is not None:
                return OtherTable(each.name, above, found)
    return None


def check_supported(table_format: str) -> None:
    """Raise InvalidInputError for a format that is known but not supported."""
    name = _NAMES.get(table_format.lower())
    if name is not None:
        raise InvalidInputError(
            f"tables of the format {name} are neither read nor written at a ref. {_way_out(name)}"
        )


def check_no_other(table: OtherTable | None, path: str, ref: str) -> None:
    """Raise InvalidInputError for a path at or in a table of another format."""
    if table is None:
        return
    place = "" if path.strip("/") == table.folder.strip("/") else "in "
    raise InvalidInputError(
        f"{path!r} is {place}a table of the format {table.format} at {ref!r}, since there is "
        f"{table.found!r}. Its metadata says which files and rows count: as plain files, it would "
        f"show rows that were overwritten or deleted. {_way_out(table.format)}"
    )


def _way_out(name: str) -> str:
    return (
        f"Export the table's folder and use {name}'s own reader on the copy, or read single files "
        "by repo.open"
    )


def _folders(folder: str) -> Iterator[str]:
    """Yield a folder and those above it, the root last."""
    parts = folder.strip("/").split("/")
    for count in range(len(parts), 0, -1):
        yield "/".join(parts[:count]) + "/"
    yield ""


def _find_mark(listing: Listing, folder: str, known: OtherFormat) -> str | None:
    for prefix in known.prefixes:
        for each in islice(listing(folder + prefix), _LOOKED_AT):
            if each.path.endswith(known.suffixes):
                return each.path
    return None
