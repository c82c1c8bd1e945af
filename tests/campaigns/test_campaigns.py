"""A sample of each campaign in `make test-system`, and the full numbers in `make test-slow`.

A small sample of hostile tables also runs in `make test`.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from campaigns.faults import crash, damage, hostile_tables, outages
from campaigns.faults.rounds import Figures, Options
from campaigns.histories import races

SEED = int(os.environ.get("SPARKLAKE_SEED", "1"))


def check(figures: Figures, rounds: int) -> None:
    assert figures.broken == []
    assert figures.total == rounds


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_verbs_that_are_killed(server_dsn: str) -> None:
    options = Options(12, SEED, verbs=("commit", "merge, conflict", "put_many"))
    check(crash.campaign(options, server_dsn), 12)


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_damaged_files() -> None:
    check(damage.campaign(Options(60, SEED)), 60)


def test_hostile_tables_of_each_kind() -> None:
    rounds = len(hostile_tables.KINDS)
    check(hostile_tables.campaign(Options(rounds, SEED)), rounds)


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_hundreds_of_hostile_tables() -> None:
    check(hostile_tables.campaign(Options(400, SEED + 1)), 400)


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_eight_writers(server_dsn: str) -> None:
    verbs: Counter[str] = Counter()
    check(races.campaign(Options(2, SEED), server_dsn, verbs), 2)
    assert sum(verbs.values()) > 2 * races.WRITERS


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_faults_of_servers_disks_and_clocks() -> None:
    options = Options(outages.KINDS, SEED, verbs=("commit", "merge"))
    check(outages.campaign(options), outages.KINDS)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_verbs_that_are_killed_before_every_step(server_dsn: str) -> None:
    figures = crash.campaign(Options(crash.EVERY_STEP, SEED), server_dsn)
    assert figures.broken == []
    assert figures.total > 2000


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_thousands_of_damaged_files() -> None:
    check(damage.campaign(Options(5000, SEED)), 5000)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_thousands_of_hostile_tables() -> None:
    check(hostile_tables.campaign(Options(10_000, SEED)), 10_000)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_hundreds_of_races(server_dsn: str) -> None:
    check(races.campaign(Options(300, SEED), server_dsn), 300)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_hundreds_of_faults() -> None:
    check(outages.campaign(Options(20 * outages.KINDS, SEED)), 20 * outages.KINDS)
