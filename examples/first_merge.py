"""A first merge on any Spark: load orders, correct them on a branch, merge the branch.

The argument is the storage namespace: a bucket prefix, or a directory that all machines share.
SPARKLAKE_DSN names the Postgres. Guides for several platforms: docs/runtimes/.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

import sparklake
from sparklake.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

TABLE = "tables/orders"


def first_merge(spark: SparkSession, namespace: str, name: str, engine: str) -> dict[str, object]:
    """Create a repository, merge a branch into main, and return the resulting state of main."""
    orders = spark.range(1000).selectExpr("id", "id % 7 AS day", "id * 1.5 AS amount")
    corrected = orders.selectExpr("id", "day", "IF(id = 42, 0.0, amount) AS amount")
    with sparklake.connect(spark=spark, engine=engine) as lake:
        repo = lake.create_repository(name, namespace)
        main = repo.branch("main")
        main.write(orders, TABLE)
        main.commit("load orders")
        fix = repo.create_branch("fix-42", source="main")
        fix.write(corrected, TABLE, mode="overwrite")
        fix.commit("correct order 42")
        merged = repo.merge("fix-42", "main")
        rows = repo.read("main", TABLE)
        return {
            "commit": merged.id,
            "rows": rows.count(),
            "amount of 42": float(rows.where("id = 42").collect()[0]["amount"]),
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the example. Ignore arguments added by the platform."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("namespace", help="storage namespace of the new repository")
    parser.add_argument("--name", default="orders", help="name of the new repository")
    parser.add_argument("--engine", default="spark", help="spark, local or auto")
    given, _ = parser.parse_known_args(arguments)
    spark = spark_session("first merge")
    print(json.dumps(first_merge(spark, given.namespace, given.name, given.engine)))


if __name__ == "__main__":
    main()
