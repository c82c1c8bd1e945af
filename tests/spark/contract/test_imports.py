"""Imports as Spark jobs: of any source they make what this process makes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from sparklake import Branch, ImportReport, InvalidImportError, Inventory, Repository
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.testing.s3_server import aws_client, make_bucket, s3_environment, s3_server
from sparklake.udfs.imports.inventory import InventoryTaskSettings, read_inventory
from sparklake.udfs.imports.row_checks import import_body
from sparklake.udfs.imports.tasks import ranges_body
from sparklake.verbs.imports import import_objects as imports
from sparklake.verbs.imports import sources as import_sources
from tests.support.inventories import KEYS, put_inventory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOON = datetime(2024, 7, 1, 12, tzinfo=timezone.utc)
BODIES: dict[str, Callable[..., Iterator[pa.RecordBatch]]] = {
    "import_body": import_body,
    "ranges_body": ranges_body,
}

Rows = list[dict[str, Any]]


def row(number: int, **given: Any) -> dict[str, Any]:
    return {
        "path": f"k/{number:03d}",
        "size": number,
        "checksum": f"c{number}",
        "mtime": NOON,
        "address": f"s3://bucket/{number}",
        "metadata": [("n", str(number))] if number % 3 == 0 else None,
        "content_type": "text/csv" if number % 2 else None,
        **given,
    }


# In no order; some paths twice, and some rows that are wrong.
GOOD = [row(number * 37 % 200) for number in range(200)]
BAD = [
    *(row(number, address=f"s3://other/{number}") for number in range(0, 200, 20)),
    *(row(number, size=-1) for number in range(300, 310)),
    row(400, path=None),
    row(401, path="a/../b"),
    row(402, address="no uri"),
]
COUNTS = {
    "missing_path": 1,
    "invalid_path": 1,
    "invalid_size": 10,
    "invalid_address": 1,
    "duplicate_path": 10,
}


def table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=IMPORT_SCHEMA)


def frame(spark: SparkSession, rows: Rows) -> DataFrame:
    """Return rows as several partitions, each with some of the wrong ones."""
    ddl = "path string, size bigint, checksum string, mtime timestamp, address string"
    schema = f"{ddl}, metadata map<string, string>, content_type string"
    names = [each.name for each in IMPORT_SCHEMA]
    maps = [{**each, "metadata": each["metadata"] and dict(each["metadata"])} for each in rows]
    return spark.createDataFrame(maps, schema).select(*names).repartition(5)


def errors_of(found: ImportReport | InvalidImportError) -> Rows:
    return in_order(found.errors)


def in_order(errors: Any) -> Rows:
    order = [("path", "ascending"), ("address", "ascending"), ("reason", "ascending")]
    rows: Rows = errors.sort_by(order).to_pylist()
    return rows


def said_of(report: ImportReport) -> tuple[Any, ...]:
    return report.commit.meta_range_id, report.objects, report.counts, errors_of(report)


def test_rows_of_a_dataframe(
    make_twins: tuple[Repository, Repository], spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[list[Any]] = []
    sources: tuple[Callable[[Rows], Any], ...] = (partial(frame, spark), table)
    for repo, given in zip(make_twins, sources, strict=True):
        main = repo.branch("main")
        said: list[Any] = []
        said.append(said_of(main.import_objects(given(GOOD), "in")))
        with pytest.raises(InvalidImportError) as raised:
            main.import_objects(given(GOOD + BAD), "in")
        said.append((raised.value.counts, errors_of(raised.value)))
        assert main.state.commit_id == repo.resolve("main").id
        options: dict[str, Any] = {"on_error": "skip", "errors_to": str(tmp_path / repo.name)}
        more = [row(number, path=f"k/{number - 0.5}") for number in range(100, 130)]
        report = main.import_objects(given(BAD + GOOD[:50] + more), "in", **options)
        said.append(said_of(report))
        said.append(in_order(ds.dataset(tmp_path / repo.name).to_table()))
        said.append(said_of(main.import_objects(given(GOOD[::2]), "in/k/0", replace=True)))
        said.append([(each.path, each.address) for each in repo.objects("main")])
        seen.append(said)
    on_spark, here = seen
    assert on_spark == here
    assert here[1][0] == COUNTS
    assert len(here[0][3]) == 0
    assert here[3] == here[2][3], "all of them are in the table"


def test_rows_without_checksums(
    make_twins: tuple[Repository, Repository], spark: SparkSession, tmp_path: Path
) -> None:
    rows = []
    for number in range(20):
        file = tmp_path / f"{number * 7 % 20:02d}"
        file.write_text(f"body {number}")
        size = 1 if number == 3 else file.stat().st_size
        rows.append({"path": file.name, "size": size, "address": file.as_uri()})
    on_spark, here = make_twins
    frame = spark.createDataFrame(rows, "path string, size bigint, address string").repartition(5)
    there = on_spark.branch("main").import_objects(frame, "in")
    table = pa.Table.from_pylist(rows)
    assert said_of(there) == said_of(here.branch("main").import_objects(table, "in"))
    assert len({each.checksum for each in on_spark.objects("main")}) == len(rows)


def run_twice(name: str, *arguments: Any) -> Iterator[pa.RecordBatch]:
    """Is a task that Spark runs again when it had all but finished."""
    *settings, batches = arguments
    given = list(batches)
    list(BODIES[name](*settings, given))
    yield from BODIES[name](*settings, given)


@pytest.mark.parametrize("body", BODIES)
def test_tasks_that_run_again(
    make_twins: tuple[Repository, Repository],
    spark: SparkSession,
    body: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables of errors have no row twice either."""
    there, here = make_twins
    options: dict[str, Any] = {"on_error": "skip", "errors_to": str(tmp_path / "errors")}
    once = here.branch("main").import_objects(table(GOOD + BAD), "in", **options)
    monkeypatch.setattr(imports, body, partial(run_twice, body))
    options["errors_to"] = str(tmp_path / "errors-of-spark")
    twice = there.branch("main").import_objects(frame(spark, GOOD + BAD), "in", **options)
    assert said_of(twice) == said_of(once)
    written = in_order(ds.dataset(tmp_path / "errors-of-spark").to_table())
    assert written == in_order(ds.dataset(tmp_path / "errors").to_table())


@pytest.mark.system
def test_a_listing_with_folders_side_by_side(
    make_twins: tuple[Repository, Repository], tmp_path: Path
) -> None:
    for number in range(60):
        file = tmp_path / "source" / f"part={number % 7}" / f"{number} %20é.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}")
    source = str(tmp_path / "source")
    there, here = (each.branch("main").import_objects(source, "raw") for each in make_twins)
    assert said_of(there)[1:] == (60, {}, [])
    assert said_of(there) == said_of(here)


def with_environment(
    environment: dict[str, str], terms: InventoryTaskSettings, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read an inventory where the endpoint is known; the executors have been there before it."""
    with mock.patch.dict(os.environ, environment):
        yield from read_inventory(terms, batches)


@pytest.mark.system
def test_an_inventory(
    make_twins: tuple[Repository, Repository], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as endpoint:
        environment = s3_environment(endpoint, tmp_path)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        make_bucket(environment, "inventoried")
        uri = put_inventory(aws_client("s3", environment), "inventoried", "Parquet")
        monkeypatch.setattr(
            import_sources, "read_inventory", partial(with_environment, environment)
        )
        there, here = (
            each.branch("main").import_objects(Inventory(uri), "all") for each in make_twins
        )
    assert said_of(there) == said_of(here)
    assert there.objects == len(KEYS)


def test_a_source_that_fails_leaves_the_branch_as_it_was(
    repo: Repository, spark: SparkSession
) -> None:
    main: Branch = repo.branch("main")
    before = main.state
    broken = frame(spark, GOOD).selectExpr(
        "path", "address", "checksum", "if(size = 7, raise_error('it broke'), size) AS size"
    )
    with pytest.raises(Exception, match="it broke"):
        main.import_objects(broken, "in")
    assert main.state == before
    assert not repo.branch("main").import_objects(frame(spark, GOOD), "in").skipped
