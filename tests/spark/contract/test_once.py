"""Table writes with idempotency keys: rows of a repeated append are in the table once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sparklake import Once, Repository, run_verb
from sparklake.errors import IdempotencyKeyReusedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"


@pytest.mark.parametrize(
    "table_format", ["parquet", pytest.param("delta", marks=pytest.mark.system)]
)
def test_a_repeated_append_adds_its_rows_once(
    spark: SparkSession, repo: Repository, table_format: str
) -> None:
    main, rows = repo.branch("main"), spark.range(5).toDF("id")
    main.write(rows, "t", table_format)
    key = Once("append", ["the source"])
    first, again = (
        run_verb(main.write, rows, "t", table_format, mode="append", once=key) for _ in range(2)
    )
    assert again.value == first.value
    assert (first.repeated, again.repeated) == (False, True)
    assert repo.read("main", "t", table_format).count() == 10
    with pytest.raises(IdempotencyKeyReusedError):
        main.write(rows, "t", table_format, mode="append", once="append")
    main.write(rows, "t", table_format, mode="append", once="another append")
    assert repo.read("main", "t", table_format).count() == 15


@pytest.mark.system
def test_a_repeated_edit_of_a_delta_table_is_discarded(
    spark: SparkSession, repo: Repository
) -> None:
    main = repo.branch("main")
    main.write(spark.range(5).toDF("id"), "t", "delta")
    seen = []
    for _ in range(2):
        with main.edit_delta("t", once="edit") as location:
            seen.append(location.repeated)
            spark.sql(f"INSERT INTO delta.`{location}` VALUES (7)")
        assert repo.read("main", "t", "delta").count() == 6
    assert seen == [False, True]
    with pytest.raises(IdempotencyKeyReusedError), main.edit_delta("other", once="edit"):
        pass
    with pytest.raises(ZeroDivisionError), main.edit_delta("t", once="failed"):
        raise ZeroDivisionError
    with main.edit_delta("t", once="failed") as location:
        spark.sql(f"INSERT INTO delta.`{location}` VALUES (8)")
    assert repo.read("main", "t", "delta").count() == 7
    # An edit that changes nothing is recorded, too.
    with main.edit_delta("t", once="nothing"):
        pass
    with main.edit_delta("t", once="nothing") as location:
        spark.sql(f"INSERT INTO delta.`{location}` VALUES (9)")
    assert repo.read("main", "t", "delta").count() == 7
