"""A sample of most campaigns in `make test-system`, and a larger one in `make test-slow`.

A small sample of hostile tables also runs in `make test`. `SPARKLAKE_CAMPAIGN_PERCENT` chooses the
share of the full campaigns that `make test-slow` runs.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from campaigns.faults import crash, damage, hostile_tables, outages
from campaigns.faults.rounds import Figures, Options
from campaigns.histories import races

SEED = int(os.environ.get("SPARKLAKE_SEED", "1"))
PERCENT = int(os.environ.get("SPARKLAKE_CAMPAIGN_PERCENT", "15"))
ALL_KILLS = 2000


def share_of(rounds: int) -> int:
    return max(1, rounds * PERCENT // 100)


def check(figures: Figures, rounds: int) -> None:
    assert figures.broken == []
    assert figures.total == rounds


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_killed_verbs_leave_the_old_or_the_new_state(server_dsn: str) -> None:
    options = Options(12, SEED, verbs=("commit", "edit_iceberg", "merge, conflict", "put_many"))
    check(crash.campaign(options, server_dsn), 12)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_killed_verbs_leave_the_old_or_the_new_state_on_azure(server_dsn: str) -> None:
    options = Options(
        8, SEED, stores=("azure",), verbs=("commit", "gc", "import", "edit_delta", "edit_iceberg")
    )
    check(crash.campaign(options, server_dsn), 8)


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_damaged_files_are_detected() -> None:
    check(damage.campaign(Options(60, SEED)), 60)


def test_each_kind_of_hostile_table_is_rejected_or_read() -> None:
    rounds = len(hostile_tables.KINDS)
    check(hostile_tables.campaign(Options(rounds, SEED)), rounds)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_hundreds_of_hostile_tables_are_rejected_or_read() -> None:
    check(hostile_tables.campaign(Options(200, SEED + 1)), 200)


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_eight_concurrent_writers_are_serializable(server_dsn: str) -> None:
    verbs: Counter[str] = Counter()
    check(races.campaign(Options(2, SEED), server_dsn, verbs), 2)
    assert sum(verbs.values()) > 2 * races.WRITERS


@pytest.mark.system
@pytest.mark.timeout(900)  # many processes, on a machine that may be busy
def test_verbs_survive_faults_of_servers_disks_and_clocks() -> None:
    options = Options(outages.KINDS, SEED, verbs=("commit", "merge"))
    check(outages.campaign(options), outages.KINDS)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_verbs_killed_before_any_step_leave_the_old_or_the_new_state(server_dsn: str) -> None:
    kills = share_of(ALL_KILLS) if PERCENT < 100 else crash.EVERY_STEP
    figures = crash.campaign(Options(kills, SEED), server_dsn)
    assert figures.broken == []
    assert figures.total >= share_of(ALL_KILLS) // 2


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_many_damaged_files_are_detected() -> None:
    rounds = share_of(5000)
    check(damage.campaign(Options(rounds, SEED)), rounds)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_many_hostile_tables_are_rejected_or_read() -> None:
    rounds = share_of(10_000)
    check(hostile_tables.campaign(Options(rounds, SEED)), rounds)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_many_concurrent_writers_are_serializable(server_dsn: str) -> None:
    rounds = share_of(300)
    check(races.campaign(Options(rounds, SEED), server_dsn), rounds)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
def test_verbs_survive_many_faults() -> None:
    rounds = share_of(20 * outages.KINDS)
    check(outages.campaign(Options(rounds, SEED)), rounds)
