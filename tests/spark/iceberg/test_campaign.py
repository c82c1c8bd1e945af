"""A sample of the campaign over tables that Spark wrote, with a round for each format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from campaigns.faults.rounds import Options
from campaigns.iceberg.merges import campaign
from campaigns.iceberg.spark_tables import FORMATS
from tests.campaigns.test_campaigns import SEED, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.timeout(900)  # on a machine that may be busy
def test_a_round_of_each_format(spark: SparkSession, tmp_path: Path) -> None:
    figures, _ = campaign(Options(len(FORMATS), SEED), tmp_path, spark)
    check(figures, len(FORMATS))
