"""`sparklake cache`, on a folder with some tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake.stores.cache import DiskCache
from tests.cli.running import failed, ok, said


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "cache"
    monkeypatch.setenv("SPARKLAKE_CACHE", str(made))
    monkeypatch.setenv("SPARKLAKE_CACHE_BYTES", "5000000")
    return made


def test_a_cache_is_shown_and_cleared(folder: Path) -> None:
    empty = {"folder": str(folder), "tree_files": 0, "size": 0, "max_bytes": 5_000_000}
    assert said("cache", "show") == empty
    for number in range(3):
        DiskCache(folder, 5_000_000).keep("store", f"{number:064x}", bytes(984))
    assert said("cache", "show") == {**empty, "tree_files": 3, "size": 3000}
    assert ok("cache", "show") == f"{folder} contains 3 tree files, 3.0 kB of 5.0 MB\n"
    assert ok("cache", "clear") == f"3 tree files removed from {folder}, 3.0 kB\n"
    assert said("cache", "clear") == empty
    assert said("cache", "show") == empty


def test_a_machine_without_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKLAKE_CACHE_BYTES", "0")
    for verb in ("show", "clear"):
        assert "disabled by cache_bytes" in failed(4, "cache", verb)
    assert not folder.exists()
