"""A sample of the campaign over Iceberg tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.faults.rounds import Options
from campaigns.iceberg.merges import KINDS, campaign

pytestmark = pytest.mark.system


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_no_round_is_broken(tmp_path: Path) -> None:
    figures, _ = campaign(Options(len(KINDS), 7), tmp_path)
    assert not figures.broken
    assert figures.total == len(KINDS)
