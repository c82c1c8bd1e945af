"""A store behind a cache: the same contract, fewer reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.counting import recorded_reads
from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.sstable.range_files import tree_file_key, verify_table
from sparklake.stores.cache import CacheCounts, DiskCache
from sparklake.stores.cache.cached_store import CachedStore
from sparklake.stores.cache.counts import TALLY
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.object_store import ObjectStoreContract
from tests.support.caching_process import content_of, id_of, verify

LAKEFS = Path(__file__).parents[2] / "golden" / "namespace" / "_lakefs"

CONTENTS = [content_of(number) for number in range(6)]
IDS = [id_of(content) for content in CONTENTS]
KEYS = [tree_file_key(each) for each in IDS]


@pytest.fixture
def inner(tmp_path: Path) -> LocalStore:
    (tmp_path / "lake").mkdir()
    return LocalStore(tmp_path / "lake")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    (tmp_path / "cache").mkdir()
    return DiskCache(tmp_path / "cache", 1 << 20)


class TestCachedStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, inner: LocalStore, cache: DiskCache) -> ObjectStore:
        return CachedStore(inner, cache, lambda table_id, content: None)

    def test_the_store_declares_whether_it_verifies_reads(self, store: ObjectStore) -> None:
        assert store.traits.verifies


@pytest.fixture
def store(inner: LocalStore, cache: DiskCache) -> CachedStore:
    for key, content in zip(KEYS, CONTENTS, strict=True):
        inner.put_if_absent(key, content)
    return CachedStore(inner, cache, verify)


def test_a_table_is_read_once(store: CachedStore, tmp_path: Path) -> None:
    with recorded_reads() as names:
        assert [store.get(KEYS[0]) for _ in range(3)] == [CONTENTS[0]] * 3
        store.get_to_file(KEYS[0], tmp_path / "file")
    assert names == [IDS[0]]
    assert (tmp_path / "file").read_bytes() == CONTENTS[0]


@pytest.mark.parametrize(
    "key", ["data/x", "_lakefs/x", "_lakefs/" + "G" * 64, f"_lakefs/{IDS[0]}/x", f"a/{KEYS[0]}"]
)
def test_objects_other_than_tree_files_bypass_the_cache(
    store: CachedStore, inner: LocalStore, cache: DiskCache, key: str
) -> None:
    if "/x" in key and IDS[0] in key:
        inner.delete(KEYS[0])
    inner.put_if_absent(key, b"body")
    with recorded_reads() as names:
        assert [store.get(key), *(each[:] for each in store.get_many([key]))] == [b"body"] * 2
    assert names == [key.rpartition("/")[2]] * 2
    assert cache.usage().tree_files == 0
    assert cache.counts == CacheCounts()


def test_hits_and_misses_are_returned_in_request_order(
    store: CachedStore, inner: LocalStore, cache: DiskCache
) -> None:
    inner.put_if_absent("data/x", b"body")
    for at in (1, 4):
        store.get(KEYS[at])
    TALLY.begin()
    order = [0, 1, 1, 3, 4, 0]
    with recorded_reads() as names:
        contents = [each[:] for each in store.get_many([*(KEYS[at] for at in order), "data/x"])]
    assert contents == [*(CONTENTS[at] for at in order), b"body"]
    assert names == [IDS[0], IDS[3], IDS[0], "x"]
    sizes = [len(content) for content in CONTENTS]
    assert cache.counts == CacheCounts(
        hits=3,
        misses=3,
        hit_bytes=sizes[1] + sizes[1] + sizes[4],
        miss_bytes=sizes[0] + sizes[3] + sizes[0],
    )


def test_a_tree_file_evicted_during_a_read_is_read_again(
    store: CachedStore, cache: DiskCache
) -> None:
    list(store.get_many(KEYS))
    with recorded_reads() as names:
        contents = store.get_many(KEYS)
        assert next(contents) == CONTENTS[0]
        cache.clear()
        assert list(contents) == CONTENTS[1:]
    assert names == IDS[1:]


def test_an_error_is_raised_at_its_position(store: CachedStore, inner: LocalStore) -> None:
    store.get(KEYS[0])
    inner.delete(KEYS[1])
    contents = store.get_many([KEYS[0], KEYS[1], KEYS[2]])
    assert next(contents) == CONTENTS[0]
    with pytest.raises(MissingFileError, match=IDS[1]):
        next(contents)


def test_a_corrupt_tree_file_is_not_cached(
    store: CachedStore, inner: LocalStore, cache: DiskCache
) -> None:
    inner.delete(KEYS[0])
    inner.put_if_absent(KEYS[0], CONTENTS[1])
    for ask in (store.get, lambda key: list(store.get_many([key]))):
        with pytest.raises(CorruptFileError, match=IDS[0]):
            ask(KEYS[0])
    assert cache.usage().tree_files == 0


def test_a_damaged_cache_file_is_read_from_the_store(store: CachedStore, cache: DiskCache) -> None:
    store.get(KEYS[0])
    (path,) = cache.folder.glob(f"*/{IDS[0]}")
    os.truncate(path, 100)
    with recorded_reads() as names:
        assert [store.get(KEYS[0]) for _ in range(2)] == [CONTENTS[0]] * 2
    assert names == [IDS[0]]


def test_a_written_tree_file_is_read_from_the_cache(inner: LocalStore, cache: DiskCache) -> None:
    store = CachedStore(inner, cache, verify)
    assert store.put_if_absent(KEYS[0], CONTENTS[0])
    assert list(store.put_many_if_absent({KEYS[1]: CONTENTS[1]})) == [KEYS[1]]
    with recorded_reads() as names:
        assert list(store.get_many(KEYS[:2])) == CONTENTS[:2]
    assert names == []


def test_a_tree_file_of_another_writer_is_read_from_the_store(
    inner: LocalStore, cache: DiskCache, tmp_path: Path
) -> None:
    store = CachedStore(inner, cache, lambda table_id, content: None)
    inner.put_if_absent(KEYS[0], b"equal records, the first one's addresses")
    (tmp_path / "file").write_bytes(b"equal records, other addresses")
    assert not store.put_if_absent(KEYS[0], (tmp_path / "file").read_bytes())
    assert list(store.put_files_if_absent({KEYS[0]: tmp_path / "file"})) == []
    assert store.get(KEYS[0]) == b"equal records, the first one's addresses"


def test_a_deleted_tree_file_is_dropped_from_the_cache(store: CachedStore) -> None:
    store.get(KEYS[0])
    store.delete(KEYS[0])
    with pytest.raises(MissingFileError):
        store.get(KEYS[0])


def test_each_store_has_its_own_cache_folder(
    store: CachedStore, inner: LocalStore, cache: DiskCache
) -> None:
    def reads(root: Path) -> int:
        with recorded_reads() as names:
            CachedStore(LocalStore(root), cache, verify).get(KEYS[0])
        return len(names)

    other = inner.root.with_name("other")
    inner.root.with_name("other").symlink_to(inner.root)
    assert [reads(inner.root), reads(other)] == [1, 1]
    assert [reads(inner.root), reads(other)] == [0, 0]


@pytest.mark.parametrize(
    ("place", "variable"),
    [
        ("s3://bucket/lake", "AWS_ENDPOINT_URL_S3"),
        ("s3://bucket/lake", "AWS_ENDPOINT_URL"),
        ("https://acct.blob.core.windows.net/lake", "AZURE_STORAGE_ENDPOINT"),
        ("gs://bucket/lake", "GOOGLE_BASE_URL"),
        ("gs://bucket/lake", "STORAGE_EMULATOR_HOST"),
    ],
)
def test_each_endpoint_has_its_own_cache_folder(
    store: CachedStore,
    inner: LocalStore,
    cache: DiskCache,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    variable: str,
) -> None:
    class Elsewhere(LocalStore):
        uri = property(lambda _: place)

    def reads() -> int:
        with recorded_reads() as names:
            CachedStore(Elsewhere(inner.root), cache, verify).get(KEYS[0])
        return len(names)

    monkeypatch.delenv(variable, raising=False)
    assert [reads(), reads()] == [1, 0]
    monkeypatch.setenv(variable, "http://elsewhere")
    assert [reads(), reads()] == [1, 0]
    monkeypatch.setenv(variable, "http://another")
    assert reads() == 1


def test_a_tree_file_of_lakefs_is_verified_by_its_name() -> None:
    tables = {path.name: path.read_bytes() for path in LAKEFS.iterdir()}
    assert len(tables) > 10
    names = [*tables]
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        verify_table(name, tables[name])
        for bad in (tables[other], tables[name][:-1], b"this is no table", b""):
            with pytest.raises(CorruptFileError, match=name):
                verify_table(name, bad)
