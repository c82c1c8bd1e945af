"""Tables with metadata, where only the metadata shows which rows are valid."""

from __future__ import annotations

from sparklake.errors import InvalidInputError
from sparklake.metadata import registry
from sparklake.verbs.objects.owners import OwningTable
from sparklake.verbs.tables.version import TableVersion


def check_supported(table_format: str) -> None:
    for each in registry.FOREIGN:
        if table_format.lower() == each.name.lower():
            raise InvalidInputError(
                f"tables of the format {each.name} cannot be read or written at a ref. "
                f"{_remedy(each.name)}"
            )


def check_no_metadata(table: TableVersion, *, is_file: bool = False) -> None:
    """Reject the files of a table with metadata, because invalid ones may be among them.

    Folders below a table that may contain other tables are no part of it, except partitions.
    """
    owner = table.owner
    if owner is None or not owner.kind.nests:
        check_no_owner(owner, table.path, table.ref)
        return
    below = table.folder.removeprefix(owner.folder).split("/")[: -2 if is_file else -1]
    if all("=" in each for each in below):
        raise InvalidInputError(
            f"{owner.folder.rstrip('/')!r} is a {owner.format} table at {table.ref!r}, and only "
            f"its log determines which files are valid: use the format {owner.format.lower()!r}"
        )


def check_no_owner(owner: OwningTable | None, path: str, ref: str) -> None:
    if owner is None:
        return
    place = "" if path.strip("/") == owner.folder.strip("/") else "in "
    raise InvalidInputError(
        f"{path!r} is {place}a table of the format {owner.format} at {ref!r}, because it "
        f"contains {owner.metadata!r}. Its metadata shows which files and rows are valid: as "
        f"plain files, it would show overwritten or deleted rows. {_remedy(owner.format)}"
    )


def _remedy(name: str) -> str:
    if registry.find_format(name) is not None:
        return (
            f"Read the whole table with repo.read(ref, path, {name.lower()!r}), and write to it "
            f"with format={name.lower()!r}"
        )
    return (
        f"Export the table's folder and use {name}'s own reader on the copy, or read single "
        "files with repo.open"
    )
