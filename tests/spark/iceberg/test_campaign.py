"""A sample of the campaign over Iceberg tables that Spark changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from campaigns.faults.rounds import Options
from campaigns.tables import merges
from campaigns.tables.ports import SPARK_4_1
from tests.campaigns.test_campaigns import SEED, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.timeout(900)  # on a machine that may be busy
def test_rounds_of_each_format(spark: SparkSession, tmp_path: Path) -> None:
    rounds = 4 * len(SPARK_4_1)
    options = Options(rounds, SEED, verbs=SPARK_4_1)
    figures, _ = merges.campaign(options, tmp_path, spark, merges.PAIRS[:1])
    check(figures, rounds)
