"""The guided demo's tables: of orders, or an inventory of any files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.quickstart.orders import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.repository import Repository


@dataclass(frozen=True, slots=True)
class Sample:
    """The kind of the files, and the table that is computed from them.

    `rows` reads the files of a ref below a prefix. `improved` adds a column. `edited` is the new
    content of a file on one of two branches.
    """

    files: str
    table: str
    variable: str
    partition_by: str
    rows: Callable[[Repository, str, str], DataFrame]
    improved: Callable[[DataFrame], DataFrame]
    edited: Callable[[bool], bytes]
    first_message: str
    second_message: str


def _orders(repository: Repository, ref: str, prefix: str) -> DataFrame:
    # The folders of the shops are no partitions.
    return repository.read(
        ref, prefix, format="csv", header=True, inferSchema=True, recursiveFileLookup=True
    ).coalesce(1)


def _with_amounts(orders: DataFrame) -> DataFrame:
    from pyspark.sql.functions import col, round  # noqa: A004  (Spark's own name)

    return orders.withColumn("amount", round(col("quantity") * col("price"), 2))


def _corrected_orders(on_main: bool) -> bytes:
    """Return a file with one order, in another quantity on each branch."""
    quantity = 1 if on_main else 2
    return f"{COLUMNS}\n1,2026-05-01,berlin,7,coffee,{quantity},3.20\n".encode()


_SMALL, _LARGE = 10_000, 1_000_000
"""The limits of the size classes, in bytes."""


def _inventory(repository: Repository, ref: str, prefix: str) -> DataFrame:
    """Return a table of the files, computed by Spark from the listing of the ref."""
    from pyspark.sql.functions import col, when

    size_class = (
        when(col("size") < _SMALL, "small").when(col("size") < _LARGE, "medium").otherwise("large")
    )
    objects = repository.objects(ref, prefix).to_df()
    return objects.select("path", "size", size_class.alias("size_class")).coalesce(1)


def _with_kilobytes(inventory: DataFrame) -> DataFrame:
    from pyspark.sql.functions import col, round  # noqa: A004  (Spark's own name)

    return inventory.withColumn("kilobytes", round(col("size") / 1000, 1))


def _replaced(on_main: bool) -> bytes:
    return b"as on main\n" if on_main else b"as on Joe's branch\n"


SAMPLE_ORDERS = Sample(
    files="files with the orders of three shops",
    table="tables/orders",
    variable="orders",
    partition_by="shop",
    rows=_orders,
    improved=_with_amounts,
    edited=_corrected_orders,
    first_message="Add the orders as a table",
    second_message="Add the amount of each order",
)

OWN_FILES = Sample(
    files="files",
    table="tables/inventory",
    variable="inventory",
    partition_by="size_class",
    rows=_inventory,
    improved=_with_kilobytes,
    edited=_replaced,
    first_message="Add an inventory of the files",
    second_message="Add sizes in kilobytes",
)
