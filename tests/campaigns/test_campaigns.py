"""A sample of each campaign in `make test-system`, and the full numbers in `make test-slow`."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from campaigns import crash, damage, faults, races
from campaigns.rounds import Figures, Options

SEED = int(os.environ.get("SPARKLAKE_SEED", "1"))


def check(figures: Figures, rounds: int) -> None:
    assert figures.broken == []
    assert figures.total == rounds


@pytest.mark.system
def test_verbs_that_are_killed(server_dsn: str) -> None:
    check(crash.campaign(Options(24, SEED), server_dsn), 24)


@pytest.mark.system
def test_damaged_files() -> None:
    check(damage.campaign(Options(60, SEED)), 60)


@pytest.mark.system
def test_eight_writers(server_dsn: str) -> None:
    verbs: Counter[str] = Counter()
    check(races.campaign(Options(4, SEED), server_dsn, verbs), 4)
    assert sum(verbs.values()) > 4 * races.WRITERS


@pytest.mark.system
def test_faults_of_servers_disks_and_clocks() -> None:
    check(faults.campaign(Options(faults.KINDS, SEED)), faults.KINDS)


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
def test_hundreds_of_races(server_dsn: str) -> None:
    check(races.campaign(Options(300, SEED), server_dsn), 300)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_hundreds_of_faults() -> None:
    check(faults.campaign(Options(20 * faults.KINDS, SEED)), 20 * faults.KINDS)
