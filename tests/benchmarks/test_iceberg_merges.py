"""An Iceberg table merge reads the changes, not the whole table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.iceberg_merges import LargeTable, merged
from sparklake.testing.lakes import memory_lake


@pytest.mark.parametrize("manifests", [4, 12])
def test_only_new_and_dropped_manifests_are_read(tmp_path: Path, manifests: int) -> None:
    repo = memory_lake().create_repository("lake", str(tmp_path / "namespace"))
    figures = merged(LargeTable(repo, tmp_path, 10 * manifests, manifests), 3)
    # A side wrote three: new, removed and remaining files; and dropped one.
    assert figures["of these, manifests"] == 8
    # The metadata and the manifest list of three sides.
    assert figures["metadata files read"] == 14
