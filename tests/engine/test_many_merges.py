"""Random triples as trees of many small ranges, merged and compared by the whole engine.

`SPARKLAKE_TREE_TRIPLES` and `SPARKLAKE_SEED` choose how many there are, and which.
"""

from __future__ import annotations

import os
import random
from functools import partial

import pytest

from sparklake.engine.base import Runner
from sparklake.engine.threads import ThreadRunner
from tests.engine.merge_runs import check_run, expected_three_way
from tests.support.trees import open_trees
from tests.support.triples import Triple, check_parts, parts, random_triples

TRIPLES = int(os.environ.get("SPARKLAKE_TREE_TRIPLES", "50000"))
SEED = os.environ.get("SPARKLAKE_SEED", "sparklake")
AT_ONCE = 5_000
RANGE_RECORDS = (2, 3, 5, 8, 16, 64)


def check_many(seed: object, count: int, runner: Runner | None = None) -> None:
    """Merge triples some hundred at a time: to write a file takes as long as to merge several."""
    chance = random.Random(f"{seed} trees")
    for part in parts(random_triples(f"{seed} trees", count), chance, 400):
        with open_trees(chance.choice(RANGE_RECORDS), runner) as trees:
            tasks = chance.choice((50, 300, 1_000_000))
            check_parts(part, partial(check_run, trees, task_records=tasks))


def test_random_triples_merge_like_dicts() -> None:
    check_many("a sample", 400)


def test_random_triples_merge_in_separate_trees() -> None:
    """Tasks of one record, too: every range is cut and stitched."""
    for number, triple in enumerate(random_triples("alone", 18)):
        with open_trees(1 + number % 3) as trees:
            check_parts([triple], partial(check_run, trees, task_records=1 + number % 2))


def test_random_triples_merge_in_threads(threads: ThreadRunner) -> None:
    check_many("threads", 150, threads)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(-(-TRIPLES // AT_ONCE)))
def test_very_many_random_triples_merge_like_dicts(number: int) -> None:
    check_many(f"{SEED} {number}", min(AT_ONCE, TRIPLES - number * AT_ONCE))


def test_oracle_rows_are_in_order_with_all_sides() -> None:
    base = {b"a": b"A", b"b": b"A", b"c": b"A"}
    triple = Triple(base, {b"a": b"B", b"b": b"B", b"d": b"A"}, {**base, b"b": b"C"})
    assert expected_three_way(triple) == [
        ("changed", b"a", "A", "B", None),
        ("conflict", b"b", "C", "B", "A"),
        ("removed", b"c", "A", None, None),
        ("added", b"d", None, "A", None),
    ]
