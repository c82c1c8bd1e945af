"""Tables with a Delta log: their detection, and the plug-in of their feature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparklake.delta_log.file_names import LOG_FOLDER, log_listing
from sparklake.errors import InvalidInputError
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.ranges import MetaRange
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.diff_sides import TableSide
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.view import View

VERSION_AS_OF = "versionAsOf"


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A format of tables whose log shows which files of the folder are valid.

    `find_view` returns the view of a version of a table, and writes it if necessary. `sides`
    returns the files that a table has only in one of two trees, for a folder, refs and trees.
    """

    find_view: Callable[[Context, TableVersion, Mapping[str, Any]], View]
    sides: Callable[
        [Context, str, tuple[str, str], tuple[MetaRange, MetaRange]], tuple[TableSide, TableSide]
    ]


def has_log(table: TableVersion) -> bool:
    """Return whether a table is a Delta table."""
    return any(log_listing([each]).versions for each in log_files(table))


def check_no_log(table: TableVersion) -> None:
    """Raise InvalidInputError for a Delta table, because its folder has other files, too."""
    if has_log(table):
        raise InvalidInputError(
            f"{table.path!r} is a Delta table at {table.ref!r}, and only its log shows which "
            "files are valid: use the format 'delta'"
        )


def log_files(table: TableVersion) -> Iterator[tuple[str, ObjectInfo]]:
    """Yield the objects in the folder of a log, with their names there."""
    folder = f"{table.folder}{LOG_FOLDER}"
    for each in table.objects.within(prefix_interval(key_prefix(folder))):
        yield each.path.removeprefix(folder), each
