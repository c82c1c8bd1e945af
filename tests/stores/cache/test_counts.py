"""Counts from several processes, reported late, twice or never."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from sparklake.stores.cache.counts import CacheCounts, Tally

HIT = CacheCounts(hits=1, hit_bytes=10)
MISS = CacheCounts(misses=1, miss_bytes=5)


def test_counts_of_threads_are_not_lost() -> None:
    tally = Tally()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda turn: tally.add(HIT if turn % 2 else MISS), range(2000)))
    assert tally.total() == CacheCounts(1000, 1000, 10_000, 5_000)
    assert tally.total().reads == 2000


def test_repeated_and_late_reports_count_once() -> None:
    driver, task = Tally(), Tally()
    driver.add(HIT)
    task.add(MISS)
    first = task.report()
    task.add(MISS)
    second = task.report()
    for process, counts in (second, first, second, driver.report()):
        driver.note(process, counts)
    assert driver.total() == HIT + MISS + MISS
    assert driver.report()[1] == HIT


FORKS = """
import os, sys
from sparklake.stores.cache.counts import TALLY, CacheCounts

TALLY.add(CacheCounts(hits=1))
name, _ = TALLY.report()
child = os.fork()
if child == 0:
    own, counts = TALLY.report()
    os._exit(0 if own != name and counts == CacheCounts() else 1)
sys.exit(os.waitpid(child, 0)[1] or TALLY.report() != (name, CacheCounts(hits=1)))
"""


def test_a_forked_child_starts_with_zero_counts() -> None:
    subprocess.run([sys.executable, "-c", FORKS], check=True)
