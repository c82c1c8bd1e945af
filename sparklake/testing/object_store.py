"""The contract of object stores: inherit the class and supply the fixture."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from itertools import chain
from pathlib import Path
from threading import Barrier
from typing import ClassVar

import pytest

from sparklake.errors import InvalidKeyError, InvalidUriError, MissingFileError
from sparklake.graveler.ports import ContentPart, ObjectStore
from sparklake.stores.objects import open_object, open_store, split_uri

ODD_KEYS = [
    "data/two words.txt",
    "data/ümläut/東京/🦆",
    "data/100%",
    "data/%41%2F%2e%2e",
    "data/a#b?c=d&e+f",
    "data/..hidden",
    "data/-",
    "data/\\back\\slash",
    "data/'quotes\"",
    "_lakefs/" + "0" * 64,
]
ESCAPING_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../outside",
    "data/../../outside",
    "data/..",
    "./data",
    "data/./x",
    "nul\0character",
    "not-utf8-\udcff",
]


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted(each.key for each in store.list(prefix))


class ObjectStoreContract:
    """The contract. The fixture `store` is an empty store in an existing bucket or directory."""

    unsupported: ClassVar[tuple[str, ...]] = ()
    """Those of ODD_KEYS that the store rejects."""

    def test_a_missing_object_is_not_found(self, store: ObjectStore) -> None:
        assert store.find("data/x") is None
        assert keys(store) == []
        with pytest.raises(MissingFileError, match="data/x"):
            store.get("data/x")

    def test_an_existing_object_is_found(self, store: ObjectStore) -> None:
        before = time.time_ns()
        assert store.put_if_absent("data/x", b"body")
        assert store.get("data/x") == b"body"
        head = store.find("data/x")
        assert head is not None
        assert (head.key, head.size) == ("data/x", 4)
        assert abs(head.mtime - before) < 60 * 10**9
        assert '"' not in head.checksum

    def test_a_listing_agrees_with_a_lookup(self, store: ObjectStore) -> None:
        store.put_if_absent("data/x", b"body")
        (listed,) = store.list("data/")
        head = store.find("data/x")
        assert head is not None
        assert (listed.key, listed.size, listed.checksum) == (head.key, head.size, head.checksum)
        assert listed.mtime // 10**9 == head.mtime // 10**9

    def test_a_checksum_depends_on_the_content(self, store: ObjectStore) -> None:
        for key, body in (("a", b"one"), ("b", b"one"), ("c", b"two")):
            store.put_if_absent(key, body)
        assert store.checksum("a") == store.checksum("b") != store.checksum("c")
        assert store.checksum("a") == md5(b"one", usedforsecurity=False).hexdigest()
        with pytest.raises(MissingFileError, match="gone"):
            store.checksum("gone")

    def test_the_first_put_wins(self, store: ObjectStore) -> None:
        assert store.put_if_absent("x", b"first")
        assert not store.put_if_absent("x", b"second")
        assert store.get("x") == b"first"

    def test_the_last_replacement_wins(self, store: ObjectStore) -> None:
        for body in (b"first", b"", b"a longer one"):
            store.replace("deep/er/x", body)
            assert store.get("deep/er/x") == body
        assert keys(store) == ["deep/er/x"]
        assert not store.put_if_absent("deep/er/x", b"late")
        for key in ESCAPING_KEYS:
            with pytest.raises(InvalidKeyError):
                store.replace(key, b"")

    def test_a_reader_during_a_replacement_gets_the_old_or_the_new_object(
        self, store: ObjectStore
    ) -> None:
        bodies = [bytes([each]) * 50_000 for each in range(8)]
        store.replace("x", bodies[0])
        with ThreadPoolExecutor(4) as pool:
            writing = [pool.submit(store.replace, "x", body) for body in bodies]
            bodies_read = {store.get("x") for _ in range(40)}
            for each in writing:
                each.result()
        assert bodies_read <= set(bodies)
        assert keys(store) == ["x"]

    def test_an_empty_object_exists(self, store: ObjectStore) -> None:
        assert store.put_if_absent("empty", b"")
        assert store.get("empty") == b""
        assert not store.put_if_absent("empty", b"full")
        head = store.find("empty")
        assert head is not None
        assert head.size == 0

    def test_one_of_concurrent_puts_wins(self, store: ObjectStore) -> None:
        barrier = Barrier(16)

        def write(number: int) -> bool:
            barrier.wait()
            return store.put_if_absent("_lakefs/raced", b"%04d" % number * 10_000)

        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(write, range(16)))
        assert won.count(True) == 1
        assert store.get("_lakefs/raced") == b"%04d" % won.index(True) * 10_000

    def test_no_reader_gets_part_of_an_object(self, store: ObjectStore) -> None:
        body = b"x" * 3_000_000

        def read(number: int) -> set[int]:
            sizes = set()
            while len(body) not in sizes:
                sizes |= {each.size for each in store.list(f"{number}")}
            return sizes

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read, number) for number in range(2)]
            for number in range(2):
                store.put_if_absent(f"{number}/torn", body)
            assert [each.result(timeout=60) for each in readers] == [{len(body)}] * 2

    def test_a_large_object_round_trips(self, store: ObjectStore, tmp_path: Path) -> None:
        body = bytes(range(256)) * (30 << 12)
        assert len(body) == 30 << 20
        assert store.put_if_absent("data/large", body)
        assert not store.put_if_absent("data/large", body[::-1])
        assert store.get("data/large") == body
        store.get_to_file("data/large", tmp_path / "large")
        assert (tmp_path / "large").read_bytes() == body

    # --- keys -------------------------------------------------------------------------------------

    def test_a_key_of_maximum_length_is_stored(self, store: ObjectStore) -> None:
        _, root = split_uri(f"{store.uri}/")
        key = f"{'long/' * 205}"[: 1024 - len(root)]
        assert len(root + key) == 1024
        assert store.put_if_absent(key, b"body")
        assert not store.put_if_absent(key, b"late")
        assert store.get(key) == b"body"
        assert keys(store) == [key]

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_unusual_keys_are_preserved(self, store: ObjectStore, key: str) -> None:
        if key in self.unsupported:
            with pytest.raises(InvalidKeyError):
                store.put_if_absent(key, b"body")
            return
        assert store.put_if_absent(key, b"body")
        assert keys(store) == [key]
        assert keys(store, key) == [key]
        assert store.get(key) == b"body"
        head = store.find(key)
        assert head is not None
        assert head.key == key
        store.delete(key)
        assert store.find(key) is None

    @pytest.mark.parametrize("key", ESCAPING_KEYS)
    def test_keys_outside_the_root_are_rejected(
        self, store: ObjectStore, tmp_path: Path, key: str
    ) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"body")
        calls: list[Callable[[], object]] = [
            lambda: store.get(key),
            lambda: store.get_to_file(key, tmp_path / "copy"),
            lambda: store.put_if_absent(key, b"body"),
            lambda: store.put_files_if_absent({"fine": source, key: source}),
            lambda: store.find(key),
            lambda: store.checksum(key),
            lambda: store.delete(key),
        ]
        for call in calls:
            with pytest.raises(InvalidKeyError):
                call()
        assert keys(store) == []

    @pytest.mark.parametrize("prefix", ["/", "../", "data/../", "\0", "\udcff"])
    def test_prefixes_outside_the_root_are_rejected(self, store: ObjectStore, prefix: str) -> None:
        with pytest.raises(InvalidKeyError):
            list(store.list(prefix))

    def test_the_uri_opens_the_same_store(self, store: ObjectStore) -> None:
        store.put_if_absent("data/x", b"body")
        assert not store.uri.endswith("/")
        assert open_store(store.uri).get("data/x") == b"body"

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_an_object_is_opened_by_its_address(self, store: ObjectStore, key: str) -> None:
        if key in self.unsupported:
            with pytest.raises(InvalidUriError):
                open_object(f"{store.uri}/{key}")
            return
        store.put_if_absent(key, b"body")
        whole, whole_key = open_object(f"{store.uri}/{key}")
        assert whole.get(whole_key) == b"body"
        assert f"{whole.uri}/{whole_key}" == f"{store.uri}/{key}"

    # --- listing ----------------------------------------------------------------------------------

    def test_a_prefix_matches_as_a_plain_string(self, store: ObjectStore) -> None:
        for key in ("a.txt", "ab/c", "a/b/c", "a/bc", "b/a"):
            store.put_if_absent(key, b"")
        assert keys(store) == ["a.txt", "a/b/c", "a/bc", "ab/c", "b/a"]
        assert keys(store, "a") == ["a.txt", "a/b/c", "a/bc", "ab/c"]
        assert keys(store, "a/") == ["a/b/c", "a/bc"]
        assert keys(store, "a/b") == ["a/b/c", "a/bc"]
        assert keys(store, "a/b/") == ["a/b/c"]
        assert keys(store, "a/b/c") == ["a/b/c"]
        for nothing in ("c", "a/b/c/", "a/b/c/d", "a//", "aa", ".", ".."):
            assert keys(store, nothing) == []

    def test_a_long_listing_is_complete(self, store: ObjectStore, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"body")
        expected = [f"data/{number % 7}/{number:05}" for number in range(100)]
        store.put_files_if_absent(dict.fromkeys(expected, source))
        assert keys(store) == sorted(expected)

    def test_a_listing_can_be_abandoned(self, store: ObjectStore) -> None:
        for number in range(3):
            store.put_if_absent(f"data/{number}", b"")
        assert next(iter(store.list("data/"))).size == 0

    # --- deleting ---------------------------------------------------------------------------------

    def test_deleting_twice_is_not_an_error(self, store: ObjectStore) -> None:
        store.put_if_absent("data/x", b"body")
        store.delete("data/x")
        store.delete("data/x")
        store.delete("never/there")
        assert keys(store) == []
        assert store.put_if_absent("data/x", b"again")

    def test_deleting_part_of_a_path_deletes_nothing(self, store: ObjectStore) -> None:
        store.put_if_absent("data/x", b"body")
        store.delete("data")
        store.delete("data/x/y")
        assert keys(store) == ["data/x"]
        assert store.find("data") is None
        assert store.find("data/x/y") is None
        for key in ("data", "data/x/y"):
            with pytest.raises(MissingFileError):
                store.get(key)

    # --- files ------------------------------------------------------------------------------------

    def test_a_batch_keeps_existing_objects(self, store: ObjectStore, tmp_path: Path) -> None:
        store.put_if_absent("_lakefs/1", b"old")
        files = {f"_lakefs/{number}": tmp_path / f"{number}" for number in range(5)}
        for key, path in files.items():
            path.write_bytes(key.encode())
        new_keys = store.put_files_if_absent(files)
        assert sorted(new_keys) == [f"_lakefs/{number}" for number in (0, 2, 3, 4)]
        assert store.get("_lakefs/1") == b"old"
        for number in (0, 2, 3, 4):
            assert store.get(f"_lakefs/{number}") == f"_lakefs/{number}".encode()
        assert list(store.put_files_if_absent(files)) == []
        assert len(keys(store)) == 5

    def test_an_empty_batch_puts_nothing(self, store: ObjectStore) -> None:
        assert list(store.put_files_if_absent({})) == []
        assert keys(store) == []

    def test_concurrent_batches_agree(self, store: ObjectStore, tmp_path: Path) -> None:
        batches = []
        for writer in range(4):
            source = tmp_path / f"{writer}"
            source.write_bytes(b"%d" % writer * 10_000)
            batches.append({f"_lakefs/{number}": source for number in range(10)})
        with ThreadPoolExecutor(4) as pool:
            new_keys = list(pool.map(store.put_files_if_absent, batches))
        assert sorted(chain.from_iterable(new_keys)) == keys(store)
        assert len(keys(store)) == 10
        for writer, won in enumerate(new_keys):
            for key in won:
                assert store.get(key) == b"%d" % writer * 10_000

    def test_a_batch_with_a_missing_file_fails(self, store: ObjectStore, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="gone") as caught:
            store.put_files_if_absent({"x": tmp_path / "gone"})
        assert not isinstance(caught.value, MissingFileError)
        assert keys(store) == []

    def test_a_source_file_may_be_deleted_after_a_put(
        self, store: ObjectStore, tmp_path: Path
    ) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"body")
        link = tmp_path / "link"
        link.symlink_to(source)
        store.put_files_if_absent({"x": source, "y": link})
        link.unlink()
        source.unlink()
        assert (store.get("x"), store.get("y")) == (b"body", b"body")

    def test_an_object_is_downloaded_to_a_file(self, store: ObjectStore, tmp_path: Path) -> None:
        store.put_if_absent("data/x", b"body")
        folder = tmp_path / "scratch"
        folder.mkdir()
        store.get_to_file("data/x", folder / "copy")
        assert (folder / "copy").read_bytes() == b"body"
        assert [each.name for each in folder.iterdir()] == ["copy"]
        (folder / "copy").unlink()
        assert store.get("data/x") == b"body"

    def test_a_failed_download_leaves_no_file(self, store: ObjectStore, tmp_path: Path) -> None:
        folder = tmp_path / "scratch"
        folder.mkdir()
        with pytest.raises(MissingFileError, match="data/x"):
            store.get_to_file("data/x", folder / "copy")
        assert list(folder.iterdir()) == []

    def test_a_download_to_a_missing_directory_fails(
        self, store: ObjectStore, tmp_path: Path
    ) -> None:
        store.put_if_absent("data/x", b"body")
        with pytest.raises(OSError, match="nowhere") as caught:
            store.get_to_file("data/x", tmp_path / "nowhere" / "copy")
        assert not isinstance(caught.value, MissingFileError)

    # --- many at a time ---------------------------------------------------------------------------

    def test_many_objects_are_read_in_request_order(self, store: ObjectStore) -> None:
        bodies = {f"_lakefs/{number:03}": b"%d" % number * number for number in range(40)}
        for key, body in bodies.items():
            store.put_if_absent(key, body)
        names = [*reversed(bodies), "_lakefs/007", "_lakefs/007"]
        assert [each[:] for each in store.get_many(names)] == [bodies[key] for key in names]
        assert [each[:] for each in store.get_many(["_lakefs/011"])] == [bodies["_lakefs/011"]]
        assert list(store.get_many([])) == []

    @pytest.mark.parametrize(
        ("bad", "error"), [("gone", MissingFileError), ("../x", InvalidKeyError)]
    )
    def test_an_error_among_many_objects_is_raised_at_its_position(
        self, store: ObjectStore, bad: str, error: type[Exception]
    ) -> None:
        store.put_if_absent("x", b"x")
        store.put_if_absent("y", b"y")
        contents = store.get_many(["x", "y", bad, "x", "y"])
        assert (next(contents)[:], next(contents)[:]) == (b"x", b"y")
        with pytest.raises(error, match=bad):
            next(contents)
        assert list(contents) == []

    def test_content_survives_the_deletion_of_its_object(self, store: ObjectStore) -> None:
        store.put_if_absent("x", b"0123456789")
        (content,) = store.get_many(["x"])
        store.delete("x")
        assert len(content) == 10
        slices = (content[2:5], content[-3:], content[8:99], content[7:7])
        assert slices == (b"234", b"789", b"89", b"")

    @pytest.mark.parametrize("key", ["data/x", "_lakefs/x"])
    def test_part_of_an_object_is_read(self, store: ObjectStore, key: str) -> None:
        store.put_if_absent(key, b"0123456789")
        for start, stop in ((0, 10), (2, 5), (0, 1), (9, 10), (8, 99), (10, 11), (50, 60), (4, 4)):
            assert store.get_part(key, start, stop) == ContentPart(b"0123456789"[start:stop], 10)

    def test_a_part_of_an_empty_object_is_empty(self, store: ObjectStore) -> None:
        store.put_if_absent("x", b"")
        assert store.get_part("x", 0, 0) == store.get_part("x", 0, 5) == ContentPart(b"", 0)

    @pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 0), (5, 9)])
    def test_part_of_a_missing_object_is_not_found(
        self, store: ObjectStore, start: int, stop: int
    ) -> None:
        with pytest.raises(MissingFileError, match="data/x"):
            store.get_part("data/x", start, stop)
        with pytest.raises(InvalidKeyError):
            store.get_part("../x", start, stop)

    def test_the_store_declares_whether_it_verifies_reads(self, store: ObjectStore) -> None:
        assert not store.traits.verifies
