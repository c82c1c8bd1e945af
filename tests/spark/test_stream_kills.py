"""Kills of streams: a sample of the campaign, and in `make test-slow` all of its 200 kills."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from campaigns.faults.rounds import Options
from campaigns.streams import kills
from tests.campaigns.test_campaigns import SEED, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(2, marks=pytest.mark.system),
        pytest.param(200 // kills.KILLS, marks=pytest.mark.exhaustive),
    ],
)
def test_streams_that_are_killed(
    spark: SparkSession, lake_dsn: str, tmp_path: Path, rounds: int
) -> None:
    figures, counts = kills.campaign(Options(rounds, SEED), spark, lake_dsn, tmp_path)
    check(figures, rounds)
    assert sum(number for name, number in counts.items() if " the " in name) > rounds
