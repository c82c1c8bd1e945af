"""Processes with a shared small cache, some of them killed during a write."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.stores.cache import DiskCache
from sparklake.stores.cache.cached_store import CachedStore
from sparklake.stores.objects.local.store import LocalStore
from tests.support.caching_process import HEADER, TABLES, bytes_below, content_of, id_of, verify

ROOT = Path(__file__).parents[3]
# A sixth of all tables.
MAX_BYTES = 200_000


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    local_store = LocalStore(tmp_path / "store")
    for content in map(content_of, range(TABLES)):
        local_store.put_if_absent(tree_file_key(id_of(content)), content)
    return local_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cache_folder = tmp_path / "cache"
    cache_folder.mkdir()
    return cache_folder


def started(
    work: str, store: LocalStore, folder: Path, seed: int, turns: int
) -> subprocess.Popen[str]:
    words = [work, store.uri, str(folder), str(MAX_BYTES), str(seed), str(turns)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.caching_process", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def check(store: LocalStore, folder: Path) -> None:
    """Read every cached table, and then all tables through the cache."""
    cache = DiskCache(folder, MAX_BYTES)
    ids = {id_of(content): content for content in map(content_of, range(TABLES))}
    (below,) = (path for path in folder.iterdir() if path.is_dir())
    for path in list(below.iterdir()):
        assert cache.find(below.name, path.name) == ids[path.name]
    cached = CachedStore(store, cache, verify)
    assert list(cached.get_many([tree_file_key(name) for name in ids])) == list(ids.values())
    assert cache.usage().size <= MAX_BYTES
    assert int((folder / "lock").read_bytes()) >= cache.usage().size
    cache.clear()
    cached.get(tree_file_key(next(iter(ids))))
    assert {path.name for path in folder.iterdir()} == {"lock", below.name}


@pytest.mark.system
def test_processes_share_a_small_cache(store: LocalStore, folder: Path) -> None:
    processes = [started("read_on", store, folder, seed, 120) for seed in range(4)]
    most = 0
    while any(process.poll() is None for process in processes):
        # Nobody writes while it is listed: a listing of a moving folder would count too much.
        with DiskCache(folder, MAX_BYTES)._locked():
            most = max(most, bytes_below(folder))
        time.sleep(0.002)
    for process in processes:
        output, complaint = process.communicate()
        assert (process.returncode, complaint) == (0, "")
        hits, misses = map(int, output.split())
        assert hits > 0
        assert misses > 0
    assert MAX_BYTES / 2 < most <= MAX_BYTES
    check(store, folder)


@pytest.mark.system
def test_killed_processes_do_not_damage_the_cache(store: LocalStore, folder: Path) -> None:
    _, complaint = started("kill_readers", store, folder, 5, 30).communicate()
    assert complaint == ""
    check(store, folder)


STOPS_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from sparklake.stores.cache import DiskCache

cache = DiskCache(Path(sys.argv[1]), 200_000)
cache.keep("store", "0" * 64, b"whole")
rename = Path.rename
Path.rename = lambda source, target: os.kill(os.getpid(), signal.SIGKILL)
cache.keep("store", "1" * 64, bytes(100_000))
"""


def test_a_partial_file_of_a_killed_process_is_overwritten(folder: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", STOPS_HALF_WAY, folder], cwd=ROOT)
    assert ran.returncode == -signal.SIGKILL
    assert (folder / "incoming").stat().st_size == HEADER + 100_000
    cache = DiskCache(folder, MAX_BYTES)
    assert cache.find("store", "0" * 64) == b"whole"
    assert cache.find("store", "1" * 64) is None
    cache.keep("store", "1" * 64, b"now")
    assert cache.find("store", "1" * 64) == b"now"
    assert not (folder / "incoming").exists()
    assert cache.usage().tree_files == 2
