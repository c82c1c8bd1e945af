"""The cost of a merge of rows beside a full rewrite: python -m benchmarks.row_merges.

Both sides change other rows of the same files of a Delta table. The merge of rows reads these files
only: the others are moved away while it runs. The rewrite joins the whole tables of base, source
and dest, and overwrites dest.
"""

from __future__ import annotations

import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sparklake
from benchmarks import report
from benchmarks.spark import found_jars, spark_environment
from sparklake.repository import Repository
from sparklake.strategies import rows as by_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TABLE = "tables/orders"
_RULES = {f"{_TABLE}/": by_rows("id")}


def main() -> None:
    """Measure both ways to merge, and write the table."""
    parser = report.new_parser(__doc__, "row-merges")
    parser.add_argument("-n", type=int, default=10_000_000, help="rows")
    parser.add_argument("--files", type=int, default=200, help="files of the table")
    parser.add_argument("--changed-files", type=int, default=10, help="files with changed rows")
    parser.add_argument("--memory", default="4g", help="of the JVM of Spark's driver")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="row-merges-", dir=args.folder) as folder:
        rows = list(_rows(Path(folder), args))
    share = args.n // 100
    notes = [
        f"A Delta table of {args.n:,} rows in {args.files} files, in a local directory. Each side "
        f"updated {share:,} other rows in the same {args.changed_files} files. Spark runs in local "
        "mode. The full rewrite joins the whole tables of base, source and dest by key, and "
        "overwrites dest; it reads the files of all three."
    ]
    report.write(args, "Merges of rows beside a full rewrite", notes, rows)


def _rows(folder: Path, args: Namespace) -> Iterator[dict[str, Any]]:
    spark = _session(args, folder)
    with sparklake.connect(home=folder / "home", spark=spark, engine="local") as lake:
        repo = lake.create_repository("lake", str(folder / "lake"))
        _change(repo, spark, args)
        expected = _sums(_joined(repo))
        main = repo.branch("main")
        start = main.head.id
        preview, seconds = _timed(lambda: repo.preview_merge("dev", "main", rules=_RULES))
        counts = preview.row_merges[_TABLE]
        read = {"files read": counts.files, "bytes read": counts.bytes}
        yield {"what": "preview with counts of rows", "wall, s": seconds, **read}
        with _unchanged_moved_away(repo) as count:
            _, seconds = _timed(lambda: repo.merge("dev", "main", rules=_RULES))
        assert count == args.files - args.changed_files, f"{count} unchanged files"
        assert _sums(repo.read("main", _TABLE)) == expected
        yield {"what": "merge of rows", "wall, s": seconds, **read}
        main.hard_reset(start)
        _, seconds = _timed(lambda: _rewrite(repo))
        assert _sums(repo.read("main", _TABLE)) == expected
        sizes = [each.size for ref in ("base", "dev", start) for each in _data(repo, ref)]
        read = {"files read": len(sizes), "bytes read": sum(sizes)}
        yield {"what": "full rewrite", "wall, s": seconds, **read}
    spark.stop()


def _session(args: Namespace, folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.update(spark_environment())
    settings = {
        "spark.driver.memory": args.memory,
        "spark.jars": ",".join(map(str, found_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "16",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.appName("row-merges").master("local[2]")
    session = reduce(lambda made, each: made.config(*each), settings.items(), builder)
    spark = session.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _change(repo: Repository, spark: SparkSession, args: Namespace) -> None:
    """Write the table, and let each side update other rows of its first files."""
    main = repo.branch("main")
    ids = spark.range(0, args.n, 1, args.files)
    columns = ("id", "id % 1000 AS customer", "uuid() AS note", "id * 7 AS price")
    main.write(ids.selectExpr(*columns), _TABLE, "delta")
    main.commit("created the table")
    repo.create_tag("base", "main")
    dev = repo.create_branch("dev", "main")
    reach = args.n // args.files * args.changed_files
    step = reach // (args.n // 100)
    for number, branch in enumerate((dev, main)):
        with branch.edit_delta(_TABLE) as location:
            spark.sql(
                f"UPDATE delta.`{location}` SET price = -{number + 1} "
                f"WHERE id < {reach} AND id % {step} = {number}"
            ).collect()
        branch.commit("updated rows")


def _joined(repo: Repository) -> DataFrame:
    """Return the merged rows from the whole tables."""
    from pyspark.sql import functions as F  # noqa: N812

    sides = {name: repo.read(name, _TABLE) for name in ("base", "dev", "main")}
    names = [each for each in sides["base"].columns if each != "id"]
    packed = [rows.select("id", F.struct(*names).alias(name)) for name, rows in sides.items()]
    joined = reduce(lambda one, other: one.join(other, "id", "full_outer"), packed)
    base, source, dest = (F.col(each) for each in sides)
    row: Column = F.when(source.eqNullSafe(base), dest).otherwise(source)
    merged = joined.select("id", row.alias("row")).where("row IS NOT NULL")
    return merged.select("id", *(f"row.{each}" for each in names))


def _rewrite(repo: Repository) -> None:
    main = repo.branch("main")
    main.write(_joined(repo), _TABLE, "delta", mode="overwrite")
    main.commit("overwrote the table")


def _sums(rows: DataFrame) -> object:
    return rows.selectExpr("count(*)", "sum(id)", "sum(price)", "sum(hash(note))").first()


def _data(repo: Repository, ref: str) -> list[Any]:
    live = {Path(each).name for each in repo.read(ref, _TABLE).inputFiles()}
    objects = repo.objects(ref, f"{_TABLE}/")
    return [each for each in objects if Path(each.address).name in live]


@contextmanager
def _unchanged_moved_away(repo: Repository) -> Iterator[int]:
    """Move the data files that all sides have away, so that reading one fails."""
    sides = ({each.address for each in _data(repo, ref)} for ref in ("base", "dev", "main"))
    files = [Path(each.removeprefix("file://")) for each in set.intersection(*sides)]
    for each in files:
        each.rename(each.with_suffix(".away"))
    try:
        yield len(files)
    finally:
        for each in files:
            each.with_suffix(".away").rename(each)


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = run()
    return result, round(time.perf_counter() - start, 1)


if __name__ == "__main__":
    main()
