"""Histories of two branches over one Delta table, from a seed: a sample of the campaign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from campaigns.faults.rounds import Options
from campaigns.tables import merges, row_merges
from tests.campaigns.test_campaigns import SEED, check, share_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.system
def test_random_histories(spark: SparkSession, tmp_path: Path) -> None:
    figures, _ = merges.campaign(Options(1, SEED, verbs=("all",)), spark, tmp_path, 1)
    check(figures, 1)


@pytest.mark.system
def test_random_merges_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    options = Options(2, SEED, verbs=("vectors",))
    check(row_merges.campaign(options, spark, tmp_path), 2)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_many_random_merges_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    rounds = share_of(300)
    check(row_merges.campaign(Options(rounds, SEED), spark, tmp_path), rounds)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_many_random_histories(spark: SparkSession, tmp_path: Path) -> None:
    rounds = share_of(600)
    figures, _ = merges.campaign(Options(rounds, SEED), spark, tmp_path)
    check(figures, rounds)
