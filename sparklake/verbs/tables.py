"""Tables: read at any ref."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sparklake.errors import ObjectNotFoundError
from sparklake.udfs.objects import ObjectInfo
from sparklake.verbs.context import Context
from sparklake.verbs.read import list_objects
from sparklake.verbs.table_paths import spark_uri, table_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read_table(
    context: Context, ref: str, path: str, table_format: str, options: Mapping[str, Any]
) -> DataFrame:
    """Returns the table under a path as it is at a ref, partition columns included.

    Raises ObjectNotFoundError where the ref has no data file under the path.
    """
    objects = list_objects(context, ref, table_folder(path))
    return table_of(context, objects, ref, path, table_format, options)


def table_of(
    context: Context,
    objects: Iterable[ObjectInfo],
    ref: str,
    path: str,
    table_format: str,
    options: Mapping[str, Any],
) -> DataFrame:
    """Returns a table of the objects that lie under its path."""
    # Not at the top: writing and the CLI must not pay for importing Spark.
    from sparklake.frames.tables import TableFile, read_files

    folder = table_folder(path)
    files = [TableFile(spark_uri(each.address), each.path.removeprefix(folder)) for each in objects]
    data = [each for each in files if not each.is_hidden]
    if not data:
        raise ObjectNotFoundError(f"{ref!r} has no data file under {path!r}")
    return read_files(context.runners.session(), data, table_format, options)
