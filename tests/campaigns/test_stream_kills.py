"""The steps of a micro-batch killed by the stream campaign."""

from __future__ import annotations

import pytest

from campaigns.streams.kills import STEPS, Kill, killed_at


@pytest.mark.parametrize("step", STEPS)
def test_every_killed_step_exists(step: str) -> None:
    with killed_at(Kill(step, is_after=False, number=1), die=lambda: None):
        pass
