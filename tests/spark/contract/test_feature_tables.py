"""A Delta table of each feature is imported, edited, written, merged, reverted and purged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparklake import Commit, Repository
from sparklake.errors import MergeConflictError
from tests.support.delta_features import DELTA_FEATURES, TOGETHER, Feature
from tests.support.spark import IS_3

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINE = "auto"
pytestmark = pytest.mark.spark

TABLE = "tables/t"


def marks_of(name: str) -> pytest.MarkDecorator:
    """Return the mark of a feature. Alone, each takes many seconds of `make test-slow`.

    `make test-spark3` runs those that pass on Spark 3.5.
    """
    return pytest.mark.system if name == "together" or IS_3 else pytest.mark.exhaustive


@pytest.fixture
def session(feature: Feature, spark: SparkSession) -> Iterator[SparkSession]:
    """Is the session with the settings of a feature."""
    for name, value in feature.conf.items():
        spark.conf.set(name, value)
    yield spark
    for name in feature.conf:
        spark.conf.unset(name)


def ids_of(rows: DataFrame) -> list[tuple[int, str]]:
    return sorted((row["id"], row["name"]) for row in rows.select("id", "name").collect())


@pytest.mark.parametrize(
    "feature",
    [
        pytest.param(feature, id=name, marks=marks_of(name))
        for name, feature in {"together": TOGETHER, **DELTA_FEATURES}.items()
        if feature.on_spark_3 or not IS_3
    ],
)
def test_what_users_do_with_a_table(
    feature: Feature, session: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    spark = session
    place = tmp_path / "elsewhere"
    for each in feature.statements:
        spark.sql(each.format(t=f"delta.`{place}`", o=f"delta.`{place}-origin`"))
    main = repo.branch("main")
    main.import_objects(str(place), TABLE)
    dev = repo.create_branch("dev", "main")
    rows = ids_of(spark.read.format("delta").load(str(place)))
    assert ids_of(repo.read("main", TABLE)) == rows

    with main.edit_delta(TABLE) as location:
        for each in (
            "DELETE FROM {t} WHERE id = 3",
            "UPDATE {t} SET name = 'new' WHERE id IN (4, 6)",
            *feature.later,
        ):
            spark.sql(each.format(t=f"delta.`{location}`"))
    row = spark.sql(f"SELECT CAST(100 AS BIGINT) id, 'hundred' name{feature.values}")
    main.write(row, TABLE, "delta", mode="append")
    replaced = spark.sql(f"SELECT CAST(8 AS BIGINT) id, 'eight' name{feature.values}")
    main.write(replaced, TABLE, "delta", mode="overwrite", replaceWhere="id = 8")
    main.commit("changed")
    changes = {4: "new", 6: "new", 8: "eight", 100: "hundred"}
    expected = sorted({**dict(rows), **changes}.items())
    expected.remove((3, "n3"))
    assert ids_of(repo.read("main", TABLE)) == expected
    log = [each.path for each in repo.objects("main", f"{TABLE}/_delta_log/")]
    assert any(re.search(feature.checkpoint, each) for each in log)
    diff = repo.diff_table("main~1", "main", TABLE, ["id"])
    renamed = [each.column for each in diff.schema_changes]
    assert renamed == (["new", "newer"] if feature is DELTA_FEATURES["mapping"] else [])
    counts = diff.counts()
    assert (counts.added, counts.removed, counts.changed) == (1, 1, 3)

    features, properties = described(spark, str(place))
    assert described(spark, repo.view("main", TABLE)) == (features, properties)

    def insert_on_dev() -> Commit:
        with dev.edit_delta(TABLE) as location:
            spark.sql(f"INSERT INTO delta.`{location}` (id, name) VALUES (200, 'dev')")
        return dev.commit("inserted")

    inserted = insert_on_dev()
    if "IDENTITY" in feature.columns:
        with pytest.raises(MergeConflictError, match="identity"):
            repo.merge("dev", "main")
        with pytest.raises(MergeConflictError, match="identity"):
            main.cherry_pick(inserted.id)
        dev.hard_reset("main")
        with main.edit_delta(TABLE) as location:
            spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 0")
        main.commit("deleted")
        expected.remove((0, "n0"))
        inserted = insert_on_dev()
    united = sorted([*expected, (200, "dev")])
    merged = repo.merge("dev", "main")
    assert ids_of(repo.read("main", TABLE)) == united
    main.revert(merged.id, parent_number=1)
    assert ids_of(repo.read("main", TABLE)) == expected
    [picked] = main.cherry_pick(inserted.id)
    assert ids_of(repo.read("main", TABLE)) == united
    main.revert(picked.id)
    assert ids_of(repo.read("main", TABLE)) == expected
    repo.collect_garbage(grace=timedelta(0))
    repo.export("main", str(tmp_path / "exported"))
    exported = str(tmp_path / "exported" / TABLE)
    assert ids_of(spark.read.format("delta").load(exported)) == expected

    purged = repo.purge([f"{TABLE}/"], include_shared=True, include_external=True, commit=True)
    assert purged.counts.addresses > 0
    assert not list(repo.objects("main", TABLE))


def described(spark: SparkSession, place: str) -> tuple[list[str], dict[str, str]]:
    """Return a table's features, and the properties that do not depend on its columns."""
    [row] = spark.sql(f"DESCRIBE DETAIL delta.`{place}`").collect()
    properties = {key: text for key, text in row["properties"].items() if "maxColumnId" not in key}
    return sorted(row["tableFeatures"]), properties
