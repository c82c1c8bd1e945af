"""A garbage collection beside three writers, by many schedules: all that is named stays."""

from __future__ import annotations

import pytest

from campaigns.simulator.collections import run_schedules

SCHEDULES = 60
MORE_SCHEDULES = 2000
SHARES = 8


@pytest.mark.system
@pytest.mark.parametrize("share", range(SHARES))
def test_no_schedule_loses_what_is_named(share: int) -> None:
    happened = run_schedules(range(share, SCHEDULES, SHARES))
    assert happened["collections"] >= SCHEDULES // SHARES
    assert happened["tables deleted"] > 0 < happened["objects deleted"]


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("share", range(SHARES))
def test_none_of_many_schedules_does(share: int) -> None:
    assert run_schedules(range(SCHEDULES + share, MORE_SCHEDULES, SHARES))["collections"]
