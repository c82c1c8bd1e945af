"""Histories of two branches over one table that Spark changes: a sample of the campaign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from campaigns.faults.rounds import Options
from campaigns.tables import merges
from campaigns.tables.operations import ICEBERG
from campaigns.tables.ports import KINDS
from tests.campaigns.test_campaigns import SEED, check, share_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPARK_KINDS = tuple(
    name for name, kind in KINDS.items() if not kind.is_python and kind.format != ICEBERG
)


@pytest.mark.system
@pytest.mark.timeout(900)  # on a machine that may be busy
@pytest.mark.parametrize("name", ["parquet", "delta vectors"])
def test_random_histories(spark: SparkSession, tmp_path: Path, name: str) -> None:
    options = Options(8, SEED, verbs=(name,))
    figures, _ = merges.campaign(options, tmp_path, spark, merges.PAIRS[:2])
    check(figures, 8)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_many_random_histories(spark: SparkSession, tmp_path: Path) -> None:
    rounds = share_of(600)
    figures, _ = merges.campaign(Options(rounds, SEED, verbs=SPARK_KINDS), tmp_path, spark)
    check(figures, rounds)
