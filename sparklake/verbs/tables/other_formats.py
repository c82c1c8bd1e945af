"""Tables of unsupported formats, where only the metadata shows which rows are valid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparklake.errors import InvalidInputError
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.planning.plan import SideStream, rows_in
from sparklake.graveler.ranges import Ranges
from sparklake.verbs.base.context import Context
from sparklake.verbs.objects.list import Folder, list_level


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A table format, and its identifying files.

    `pattern` matches the names of such files, directly in the folder. Without one, every file in
    the folder is metadata. `prefixes` are the names to try first.
    """

    name: str
    folder: str
    pattern: str = ""
    prefixes: tuple[str, ...] = ("",)


_FORMATS = (
    # Catalogs number the files, 00000-ID.metadata.json, so they sort before the manifests. Without
    # a catalog they are v1.metadata.json, after all manifests.
    OtherFormat(
        "Iceberg", "metadata/", r"^version-hint\.text$|\.metadata\.json(\.gz)?$", ("v", "")
    ),
    OtherFormat("Hudi", ".hoodie/"),
    OtherFormat("Lance", "_versions/"),
)
ICEBERG = "iceberg"
_NAMES = {each.name.lower(): each.name for each in _FORMATS}


@dataclass(frozen=True, slots=True)
class OtherTable:
    """A table of another format. `metadata` is the path of an identifying file."""

    format: str
    folder: str
    metadata: str


def find_other_table(
    context: Context, base: Ranges, staged: Sequence[SideStream], folder: str
) -> OtherTable | None:
    """Return the table of another format at or above a folder, or None.

    The tree is read under staged layers, newest first, which need only the rows of `mark_prefixes`.
    Without keys in possible metadata folders, this takes a few lookups and no listing.
    """
    places = {
        prefix_interval(key_prefix(above + each.folder)): (above, each)
        for above in _folders(folder)
        for each in _FORMATS
    }
    holders = set(context.open_ranges.holding(base, list(places)))
    for side in staged:
        holders.update(context.open_ranges.holding(side.ranges, list(places)))
        holders.update(each for each in places if rows_in(side, each))
    for interval in (each for each in places if each in holders):
        above, table_format = places[interval]
        mark = _find_mark(context, base, staged, above, table_format)
        if mark is not None:
            return OtherTable(table_format.name, above, mark)
    return None


def mark_prefixes(folder: str) -> list[bytes]:
    return [key_prefix(above + each.folder) for above in _folders(folder) for each in _FORMATS]


def is_iceberg(table: OtherTable | None, folder: str) -> bool:
    """Return whether a folder itself is an Iceberg table."""
    return table is not None and table.format.lower() == ICEBERG and table.folder == folder


def check_supported(table_format: str) -> None:
    name = _NAMES.get(table_format.lower())
    if name is not None and name.lower() != ICEBERG:
        raise InvalidInputError(
            f"tables of the format {name} cannot be read or written at a ref. {_remedy(name)}"
        )


def check_no_other(table: OtherTable | None, path: str, ref: str) -> None:
    if table is None:
        return
    place = "" if path.strip("/") == table.folder.strip("/") else "in "
    raise InvalidInputError(
        f"{path!r} is {place}a table of the format {table.format} at {ref!r}, because it "
        f"contains {table.metadata!r}. Its metadata shows which files and rows are valid: as "
        f"plain files, it would show overwritten or deleted rows. {_remedy(table.format)}"
    )


def _remedy(name: str) -> str:
    if name.lower() == ICEBERG:
        return "Read the whole table with repo.read(ref, path, 'iceberg')"
    return (
        f"Export the table's folder and use {name}'s own reader on the copy, or read single "
        "files with repo.open"
    )


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
    table_format: OtherFormat,
) -> str | None:
    folder = above + table_format.folder
    for prefix in table_format.prefixes:
        for each in list_level(context, base, staged, folder + prefix, table_format.pattern):
            if not (table_format.pattern and isinstance(each, Folder)):
                return each.path
    return None
