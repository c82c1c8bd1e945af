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

    def test_what_a_store_holds_it_has_not_verified(self, store: ObjectStore) -> None:
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
def test_what_is_no_table_is_passed_through(
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


def test_hits_and_misses_come_in_the_order_asked_for(
    store: CachedStore, inner: LocalStore, cache: DiskCache
) -> None:
    inner.put_if_absent("data/x", b"body")
    for at in (1, 4):
        store.get(KEYS[at])
    TALLY.begin()
    asked = [0, 1, 1, 3, 4, 0]
    with recorded_reads() as names:
        found = [each[:] for each in store.get_many([*(KEYS[at] for at in asked), "data/x"])]
    assert found == [*(CONTENTS[at] for at in asked), b"body"]
    assert names == [IDS[0], IDS[3], IDS[0], "x"]
    sizes = [len(content) for content in CONTENTS]
    assert cache.counts == CacheCounts(
        hits=3,
        misses=3,
        hit_bytes=sizes[1] + sizes[1] + sizes[4],
        miss_bytes=sizes[0] + sizes[3] + sizes[0],
    )


def test_what_is_evicted_meanwhile_is_read_again(store: CachedStore, cache: DiskCache) -> None:
    list(store.get_many(KEYS))
    with recorded_reads() as names:
        found = store.get_many(KEYS)
        assert next(found) == CONTENTS[0]
        cache.clear()
        assert list(found) == CONTENTS[1:]
    assert names == IDS[1:]


def test_an_error_comes_in_its_turn(store: CachedStore, inner: LocalStore) -> None:
    store.get(KEYS[0])
    inner.delete(KEYS[1])
    found = store.get_many([KEYS[0], KEYS[1], KEYS[2]])
    assert next(found) == CONTENTS[0]
    with pytest.raises(MissingFileError, match=IDS[1]):
        next(found)


def test_what_is_not_the_table_of_its_name_does_not_enter(
    store: CachedStore, inner: LocalStore, cache: DiskCache
) -> None:
    inner.delete(KEYS[0])
    inner.put_if_absent(KEYS[0], CONTENTS[1])
    for ask in (store.get, lambda key: list(store.get_many([key]))):
        with pytest.raises(CorruptFileError, match=IDS[0]):
            ask(KEYS[0])
    assert cache.usage().tree_files == 0


def test_what_this_machine_has_damaged_is_read_again(store: CachedStore, cache: DiskCache) -> None:
    store.get(KEYS[0])
    (path,) = cache.folder.glob(f"*/{IDS[0]}")
    os.truncate(path, 100)
    with recorded_reads() as names:
        assert [store.get(KEYS[0]) for _ in range(2)] == [CONTENTS[0]] * 2
    assert names == [IDS[0]]


def test_what_is_written_is_read_from_here(inner: LocalStore, cache: DiskCache) -> None:
    store = CachedStore(inner, cache, verify)
    assert store.put_if_absent(KEYS[0], CONTENTS[0])
    assert list(store.put_many_if_absent({KEYS[1]: CONTENTS[1]})) == [KEYS[1]]
    with recorded_reads() as names:
        assert list(store.get_many(KEYS[:2])) == CONTENTS[:2]
    assert names == []


def test_what_another_has_written_is_read_from_there(
    inner: LocalStore, cache: DiskCache, tmp_path: Path
) -> None:
    store = CachedStore(inner, cache, lambda table_id, content: None)
    inner.put_if_absent(KEYS[0], b"equal records, the first one's addresses")
    (tmp_path / "file").write_bytes(b"equal records, other addresses")
    assert not store.put_if_absent(KEYS[0], (tmp_path / "file").read_bytes())
    assert list(store.put_files_if_absent({KEYS[0]: tmp_path / "file"})) == []
    assert store.get(KEYS[0]) == b"equal records, the first one's addresses"


def test_what_is_deleted_is_gone_here_too(store: CachedStore) -> None:
    store.get(KEYS[0])
    store.delete(KEYS[0])
    with pytest.raises(MissingFileError):
        store.get(KEYS[0])


def test_stores_have_caches_of_their_own(
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
def test_endpoints_have_caches_of_their_own(
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


def test_tables_of_lakefs_enter_under_their_own_names_alone() -> None:
    tables = {path.name: path.read_bytes() for path in LAKEFS.iterdir()}
    assert len(tables) > 10
    names = [*tables]
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        verify_table(name, tables[name])
        for bad in (tables[other], tables[name][:-1], b"this is no table", b""):
            with pytest.raises(CorruptFileError, match=name):
                verify_table(name, bad)
