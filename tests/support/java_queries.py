"""An application with typical test queries. Its argument is an empty folder."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession, functions

if TYPE_CHECKING:
    import pyarrow as pa


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def run(spark: SparkSession, folder: str) -> None:
    rows = spark.range(1000, numPartitions=2).selectExpr(
        *("id", "cast(id % 7 as string) as text", "encode(id, 'utf-8') as bytes"),
        *("current_timestamp() as time", "cast(id as decimal(20, 2)) as price"),
        *("array(id, id + 1) as list", "map('a', id) as pairs", "struct(id, 'x' as x) as nested"),
    )
    for kind in ("parquet", "json", "orc"):
        path = f"{folder}/{kind}"
        plain = rows.drop("bytes") if kind == "json" else rows
        plain.write.partitionBy("text").format(kind).save(path)
        read = spark.read.schema(plain.schema).format(kind).load(path)
        read.select("*", "_metadata.file_path").where("text = '3'").collect()
    _query(spark, rows)


def _query(spark: SparkSession, rows: DataFrame) -> None:
    arrow = rows.select("id", "text").mapInArrow(_same, "id long, text string")
    arrow.cache().count()
    joined = arrow.alias("a").join(
        rows.alias("b"), functions.expr("a.id <=> b.id"), how="full_outer"
    )
    joined.groupBy("a.text").agg(
        functions.sum("b.price"), functions.count_distinct("b.id")
    ).collect()
    rows.repartitionByRange(2, "id").sortWithinPartitions("id").collect()
    arrow.unionByName(rows.select("id", "text")).orderBy("id").limit(10).toPandas()
    # As Spark 3.5 also takes them: it makes no frame of an Arrow table.
    few = spark.createDataFrame([(1, "a"), (2, None)], "id long, text string")
    few.exceptAll(arrow).collect()
    rows.createOrReplaceTempView("numbers")
    spark.sql(
        "SELECT text, max(id) FROM numbers WHERE id > 5 GROUP BY ALL HAVING max(id) > 7"
    ).collect()


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    run(session, sys.argv[1])
    session.stop()
