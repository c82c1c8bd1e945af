"""Tables with metadata, where only the metadata shows which rows are valid."""

from __future__ import annotations

from sparklake.errors import InvalidInputError
from sparklake.verbs.objects.owners import DELTA, FORMATS, OwningTable

ICEBERG = "iceberg"
_NAMES = {each.name.lower(): each.name for each in FORMATS if each.name != DELTA}


def is_iceberg(table: OwningTable | None, folder: str) -> bool:
    """Return whether a folder itself is an Iceberg table."""
    return table is not None and table.format.lower() == ICEBERG and table.folder == folder


def check_supported(table_format: str) -> None:
    name = _NAMES.get(table_format.lower())
    if name is not None and name.lower() != ICEBERG:
        raise InvalidInputError(
            f"tables of the format {name} cannot be read or written at a ref. {_remedy(name)}"
        )


def check_no_other(table: OwningTable | None, path: str, ref: str) -> None:
    if table is None:
        return
    place = "" if path.strip("/") == table.folder.strip("/") else "in "
    raise InvalidInputError(
        f"{path!r} is {place}a table of the format {table.format} at {ref!r}, because it "
        f"contains {table.metadata!r}. Its metadata shows which files and rows are valid: as "
        f"plain files, it would show overwritten or deleted rows. {_remedy(table.format)}"
    )


def _remedy(name: str) -> str:
    if name in (DELTA, ICEBERG.title()):
        return (
            f"Read the whole table with repo.read(ref, path, {name.lower()!r}), and write to it "
            f"with format={name.lower()!r}"
        )
    return (
        f"Export the table's folder and use {name}'s own reader on the copy, or read single "
        "files with repo.open"
    )
