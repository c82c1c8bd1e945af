"""Tables with a Delta log: how one is told, and how the feature for them is plugged in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparklake.delta_log.file_names import LOG_FOLDER, log_listing
from sparklake.errors import InvalidInputError
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.ranges import MetaRange
from sparklake.udfs.objects.object_rows import ObjectInfo
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables.diff_sides import TableSide
from sparklake.verbs.tables.version import TableVersion
from sparklake.verbs.tables.view import View

VERSION_AS_OF = "versionAsOf"


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A format of tables whose log says which of the files in their folder count.

    `find_view` returns the view of a version of a table, written if it is not there. `sides`
    returns what a table has in one tree and not in the other: a folder, refs and trees are given.
    """

    find_view: Callable[[Context, TableVersion, Mapping[str, Any]], View]
    sides: Callable[
        [Context, str, tuple[str, str], tuple[MetaRange, MetaRange]], tuple[TableSide, TableSide]
    ]


def check_no_log(table: TableVersion) -> None:
    """Raise InvalidInputError for a Delta table, which is not all of the files in its folder."""
    if any(log_listing([each]).versions for each in log_files(table)):
        raise InvalidInputError(
            f"{table.path!r} is a Delta table at {table.ref!r}, whose log says which of its files "
            "count: give the format 'delta'"
        )


def log_files(table: TableVersion) -> Iterator[tuple[str, ObjectInfo]]:
    """Yield what lies in the folder of a log, with its names there."""
    folder = f"{table.folder}{LOG_FOLDER}"
    for each in table.objects.within(prefix_interval(key_prefix(folder))):
        yield each.path.removeprefix(folder), each
