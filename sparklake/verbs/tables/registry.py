"""The table formats by name. Their modules are loaded when needed."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from sparklake.metadata import registry
from sparklake.verbs.tables.foreign import check_supported
from sparklake.verbs.tables.version import TableVersion

if TYPE_CHECKING:
    from sparklake.verbs.tables.format import TableFormat

PARQUET = "parquet"
"""The format of tables without metadata, by default."""


def get_format(name: str) -> TableFormat:
    """Return the format of a name in any case. Names without metadata are those of Spark.

    Raises:
        InvalidInputError: The format has metadata, and is not supported.
    """
    check_supported(name)
    metadata = registry.find_format(name)
    module = "sparklake.verbs.tables.parquet" if metadata is None else metadata.verbs
    table_format: TableFormat = import_module(module).FORMAT
    return table_format if metadata else replace(table_format, name=name)


def found_format(table: TableVersion) -> str:
    """Return the format that the metadata shows, or Parquet."""
    owner = table.owner
    if owner is None or owner.folder != table.folder or registry.find_format(owner.format) is None:
        return PARQUET
    return owner.format.lower()
