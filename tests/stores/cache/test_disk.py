"""What a folder of tables keeps, forgets and survives."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.config import CacheSettings
from sparklake.errors import StoreError
from sparklake.stores.cache.disk import CacheUsage, DiskCache, find_cache
from sparklake.testing.folders import memory_folder

HEADER = 16
LONG_AGO = time.time() - 86400


def table_id(name: object) -> str:
    return sha256(str(name).encode()).hexdigest()


def path_of(cache: DiskCache, name: object) -> Path:
    return cache.folder / "store" / table_id(name)


def keep(cache: DiskCache, name: object, content: bytes, age: int = 0) -> None:
    cache.keep("store", table_id(name), content)
    if age:
        os.utime(path_of(cache, name), (LONG_AGO - age, LONG_AGO - age))


def names_in(cache: DiskCache, names: range) -> list[int]:
    return [name for name in names if cache.has("store", table_id(name))]


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    """Is a cache with room for ten tables of 84 bytes."""
    return DiskCache(tmp_path, 1000)


def test_a_stored_tree_file_is_found(cache: DiskCache) -> None:
    assert cache.find("store", table_id("x")) is None
    assert not cache.has("store", table_id("x"))
    keep(cache, "x", b"content")
    keep(cache, "x", b"of another writer, too late")
    assert cache.find("store", table_id("x")) == b"content"
    assert cache.has("store", table_id("x"))
    assert cache.usage() == CacheUsage(1, HEADER + len(b"content"))


def test_stores_do_not_share_tables(cache: DiskCache) -> None:
    cache.keep("left", table_id("x"), b"left")
    cache.keep("right", table_id("x"), b"right")
    assert cache.find("left", table_id("x")) == b"left"
    cache.drop("left", table_id("x"))
    cache.drop("left", table_id("x"))
    assert cache.find("left", table_id("x")) is None
    assert cache.find("right", table_id("x")) == b"right"


def test_the_least_recently_used_tree_file_is_evicted_first(cache: DiskCache) -> None:
    for number in range(10):
        keep(cache, number, bytes(84), age=100 - number)
    assert cache.find("store", table_id(0)) == bytes(84)  # It is used once more.
    assert path_of(cache, 0).stat().st_mtime > LONG_AGO + 3600
    keep(cache, 10, bytes(84))
    # Down to nine tenths, the new one included.
    assert names_in(cache, range(11)) == [0, 3, 4, 5, 6, 7, 8, 9, 10]
    keep(cache, 11, bytes(84))
    assert names_in(cache, range(12)) == [0, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_a_recent_use_is_not_recorded_again(cache: DiskCache) -> None:
    keep(cache, "x", b"content")
    mtime = path_of(cache, "x").stat().st_mtime_ns
    assert cache.find("store", table_id("x")) == b"content"
    assert path_of(cache, "x").stat().st_mtime_ns == mtime


def test_a_full_cache_is_listed_rarely(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    cache.max_bytes = 100 * 100
    for number in range(1000):
        keep(cache, number, bytes(84))
    # Once where nobody knew how much was there, then for every tenth of the bound.
    assert len(listed) <= 1 + 1000 // 9


@given(sizes=st.lists(st.integers(0, 1200), max_size=60), names=st.randoms())
def test_the_cache_never_exceeds_its_limit(sizes: list[int], names: object) -> None:
    with memory_folder() as folder:
        cache = DiskCache(folder, 1000)
        for size in sizes:
            name = names.randrange(20)  # type: ignore[attr-defined]
            keep(cache, name, bytes(size))
            assert cache.usage().size <= 1000
            if size + HEADER <= 1000:
                assert cache.has("store", table_id(name))


def test_a_table_larger_than_the_cache_is_not_kept(cache: DiskCache) -> None:
    keep(cache, "small", b"content")
    keep(cache, "large", bytes(1000 - HEADER + 1))
    assert cache.usage().tree_files == 1
    keep(cache, "whole", bytes(1000 - HEADER))
    assert cache.usage() == CacheUsage(1, 1000)


@pytest.mark.parametrize("recorded_size", ["", "nonsense", f"{10**6:020}"])
def test_a_wrong_recorded_size_is_corrected(cache: DiskCache, recorded_size: str) -> None:
    for number in range(3):
        keep(cache, number, bytes(84))
    (cache.folder / "lock").write_text(recorded_size)
    keep(cache, 3, bytes(84))
    assert names_in(cache, range(4)) == [0, 1, 2, 3]
    assert int((cache.folder / "lock").read_text()) == 400


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda body: body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda body: b"",
    "half a header": lambda body: body[: HEADER // 2],
    "a header": lambda body: body[:HEADER],
    "cut short": lambda body: body[:-1],
    "too long": lambda body: body + b"\0",
    "zeros": lambda body: bytes(len(body)),
    "magic": flip(0),
    "checksum": flip(5),
    "length": flip(15),
    "first bit": flip(HEADER),
    "last bit": flip(-1 + HEADER + 7),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_tree_file_is_a_miss(cache: DiskCache, name: str) -> None:
    keep(cache, "x", b"content")
    path = path_of(cache, "x")
    path.write_bytes(DAMAGE[name](path.read_bytes()))
    assert cache.find("store", table_id("x")) is None
    assert not path.exists()
    keep(cache, "x", b"content")
    assert cache.find("store", table_id("x")) == b"content"


def test_clearing_removes_every_tree_file(cache: DiskCache) -> None:
    for number in range(3):
        cache.keep(f"store-{number}", table_id(number), bytes(84))
    (cache.folder / "incoming").write_bytes(b"of a killed process")
    assert cache.clear() == CacheUsage(3, 300)
    assert cache.usage() == CacheUsage(0, 0)
    assert [path.name for path in cache.folder.rglob("*") if path.is_file()] == ["lock"]
    assert cache.clear() == CacheUsage(0, 0)
    keep(cache, "x", b"content")
    assert cache.find("store", table_id("x")) == b"content"


def test_a_missing_folder_is_a_warning_not_an_error(
    cache: DiskCache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.folder.rmdir()
    with caplog.at_level(logging.WARNING, "sparklake.cache"):
        keep(cache, "x", b"content")
        keep(cache, "y", b"content")
        assert cache.find("store", table_id("x")) is None
        cache.drop("store", table_id("x"))
    assert len(caplog.messages) == 1
    assert str(cache.folder) in caplog.messages[0]
    for ask in (cache.usage, cache.clear):
        with pytest.raises(StoreError, match=str(cache.folder)):
            ask()


def test_a_failed_write_leaves_no_file(cache: DiskCache, caplog: pytest.LogCaptureFixture) -> None:
    (cache.folder / "store").write_bytes(b"is in the way")
    keep(cache, "x", b"content")
    assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "store"]
    assert len(caplog.messages) == 1


# --- which cache a machine has --------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARKLAKE_CACHE", "SPARKLAKE_CACHE_BYTES"):
        monkeypatch.delenv(name, raising=False)


def test_the_cache_folder_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "cache"
    cache = find_cache(CacheSettings(str(folder), 1000))
    assert cache is not None
    assert (cache.folder, cache.max_bytes) == (folder, 1000)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert find_cache(CacheSettings(str(folder), 1000)) is cache


def test_a_limit_of_zero_bytes_disables_the_cache(tmp_path: Path) -> None:
    assert find_cache(CacheSettings(str(tmp_path / "cache"), 0)) is None
    assert not (tmp_path / "cache").exists()


def test_a_folder_writable_by_other_users_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o777)
    assert find_cache(CacheSettings(str(tmp_path), 1000)) is None
    assert "other users can write" in caplog.text


def test_an_unusable_folder_is_a_warning_not_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert find_cache(CacheSettings(str(tmp_path / "file" / "cache"), 1000)) is None
    assert str(tmp_path / "file") in caplog.text
