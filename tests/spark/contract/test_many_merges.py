"""Random triples merged and compared by Spark jobs: a part of what the other engines are given."""

from __future__ import annotations

import pytest

from sparklake.engine.spark import SparkRunner
from tests.engine.merge_runs import check_run
from tests.support.trees import open_trees
from tests.support.triples import random_triples, together

pytestmark = pytest.mark.spark


@pytest.mark.system
@pytest.mark.parametrize(
    ("count", "range_records"),
    [(200, 3), *(pytest.param(1_000, size, marks=pytest.mark.exhaustive) for size in (8, 64))],
)
def test_random_triples(runner: SparkRunner, count: int, range_records: int) -> None:
    """Is one job for all triples, since a job takes as long as thousands of merges."""
    whole = together(list(random_triples(f"spark {range_records}", count)))
    task_records = sum(map(len, whole)) // 12
    with open_trees(range_records, runner) as trees:
        check_run(trees, whole, task_records)
