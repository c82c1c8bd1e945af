"""Objects asked for one by one and in bulk, through staged layers, against a plain dict."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from benchmarks.counting import recorded_reads
from sparklake import Lake, Repository
from sparklake.errors import (
    CorruptFileError,
    InvalidInputError,
    InvalidKeyError,
    ObjectNotFoundError,
)
from sparklake.graveler.kernel_choice import is_compiled
from sparklake.graveler.ports import FetchedContent
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.graveler.sstable.reader import DataBlocks
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import files_below, namespace_of, stage_table
from sparklake.verbs.base.lookup import OpenRanges
from sparklake.verbs.base.snapshot import LOOKUP_SCHEMA, RangeLayer
from tests.support.lakes import put_sizes, stage_sizes

PATHS = [f"{folder}/{number:03}.csv" for folder in ("a", "ž", "z z") for number in range(120)]

_READ = FetchedContent.__getitem__


@pytest.fixture
def layered(small_lake: Lake, folder: Path) -> tuple[Repository, dict[str, int]]:
    """Is a branch with two runs and rows over a commit, and what they make together."""
    chance = random.Random(7)
    repo = small_lake.create_repository("layered", str(folder / "layered"), range_records=4)
    branch = repo.branch("main")
    contents: dict[str, int | None] = dict.fromkeys(PATHS, 1)
    stage_sizes(branch, contents)
    branch.commit("base")
    for size, apply in ((2, stage_sizes), (3, stage_sizes), (4, put_sizes)):
        chosen = chance.sample([*PATHS, *(f"new/{at}" for at in range(20))], 40)
        changes = {path: size if chance.random() < 0.6 else None for path in chosen}
        apply(branch, changes)
        contents.update(changes)
    return repo, {path: size for path, size in contents.items() if size is not None}


def test_any_path_is_found_or_not(layered: tuple[Repository, dict[str, int]]) -> None:
    repo, contents = layered
    view = repo.at("main")
    for path in (*PATHS, *(f"new/{at}" for at in range(20)), "a", "a/0", "zzz", "a/000.csv/"):
        if path in contents:
            assert (view.stat(path).path, view.stat(path).size) == (path, contents[path])
            assert view.exists(path)
        else:
            assert not view.exists(path)
            with pytest.raises(ObjectNotFoundError, match="has no object"):
                view.stat(path)


@pytest.mark.parametrize("kind", ["list", "array", "chunks", "large strings", "dictionary"])
def test_many_paths_come_back_in_the_order_given(
    layered: tuple[Repository, dict[str, int]], kind: str
) -> None:
    repo, contents = layered
    chance = random.Random(8)
    asked = [*PATHS, *(f"new/{at}" for at in range(20)), "", "\0", "/a", "..", "x" * 3000, "zzz"]
    asked = chance.sample(asked, len(asked)) + asked[:50]
    given = {
        "list": lambda: asked,
        "array": lambda: pa.array(asked),
        "chunks": lambda: pa.chunked_array([asked[:7], [], asked[7:]]),
        "large strings": lambda: pa.array(asked, pa.large_string()),
        "dictionary": lambda: pa.array(asked).dictionary_encode(),
    }[kind]()
    table = repo.at("main").lookup(given)
    assert table.schema == LOOKUP_SCHEMA
    assert table.column("path").to_pylist() == asked
    assert table.column("size").to_pylist() == [contents.get(path) for path in asked]
    listed = {each.path: each for each in repo.objects("main")}
    for row in table.to_pylist():
        there = listed.get(row["path"])
        assert row["address"] == (there.address if there else None)
        assert row["checksum"] == (there.checksum if there else None)


def test_nothing_asked_is_nothing_found(layered: tuple[Repository, dict[str, int]]) -> None:
    view = layered[0].at("main")
    for nothing in ([], pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        assert view.lookup(nothing).num_rows == 0
        assert view.lookup(nothing).schema == LOOKUP_SCHEMA


def test_an_empty_ref_has_no_object(small_lake: Lake, folder: Path) -> None:
    view = small_lake.create_repository("empty", str(folder / "empty")).at("main")
    assert view.lookup(["a"]).column("size").to_pylist() == [None]
    with pytest.raises(ObjectNotFoundError):
        view.stat("a")


def test_one_object_of_a_branch_with_many_staged_rows(
    layered: tuple[Repository, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparklake.verbs.base.staging.INLINE_ROWS", 3)
    repo, contents = layered
    before = files_below(namespace_of(repo))
    for path in PATHS:
        if path in contents:
            assert repo.stat("main", path).size == contents[path]
        else:
            with pytest.raises(ObjectNotFoundError):
                repo.stat("main", path)
    assert files_below(namespace_of(repo)) == before


def test_a_snapshot_stays_as_it_was(layered: tuple[Repository, dict[str, int]]) -> None:
    repo, contents = layered
    view, branch = repo.at("main"), repo.branch("main")
    stage_sizes(branch, dict.fromkeys(PATHS, 9))
    branch.commit("later")
    assert view.lookup(PATHS).column("size").to_pylist() == [contents.get(path) for path in PATHS]
    assert set(repo.at("main").lookup(PATHS).column("size").to_pylist()) == {9}


def test_bad_paths(layered: tuple[Repository, dict[str, int]]) -> None:
    view = layered[0].at("main")
    for path in ("", "x" * 1025, "\udc80"):
        with pytest.raises(InvalidKeyError):
            view.stat(path)
        with pytest.raises(InvalidKeyError):
            view.exists(path)


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["a", None], "null"),
        ([None], "null"),
        pytest.param(pa.array([], pa.int64()), "must be strings, not int64", id="no numbers"),
        ([1, 2], "must be strings, not int64"),
        (["a", 1], "must be strings"),
        (["\udc80"], "must be strings"),
        (7, "must be strings"),
        ("a/000.csv", "is one path: pass a list"),
        (b"a/000.csv", "must be strings"),
    ],
    ids=repr,
)
def test_what_cannot_be_looked_up(
    layered: tuple[Repository, dict[str, int]], paths: Any, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        layered[0].at("main").lookup(paths)


def test_objects_with_all_their_fields(small_lake: Lake, folder: Path) -> None:
    repo = small_lake.create_repository("fields", str(folder / "fields"))
    branch = repo.branch("main")
    branch.put("a", b"1", {"colour": "blue", "é": ""}, content_type="text/plain")
    branch.put("b", b"22")
    far = {"path": "c", "size": 3, "checksum": "sum", "address": "s3://bucket/c"}
    branch.stage(stage_table([far]))
    listed = list(repo.objects("main"))
    assert [each.metadata for each in listed] == [{"colour": "blue", "é": ""}, {}, {}]
    view = repo.at("main")
    assert [view.stat(each.path) for each in listed] == listed
    found = view.lookup(["c", "a", "b", "a"])
    assert found.equals(repo.objects("main").to_arrow().take([2, 0, 1, 0]).cast(LOOKUP_SCHEMA))


def test_only_the_ranges_that_may_hold_a_key_are_read(
    layered: tuple[Repository, dict[str, int]],
) -> None:
    repo, _ = layered
    repo.branch("main").commit("all")
    ranges = repo.tree("main").ranges
    chosen = ranges[3], ranges[9], ranges[4]
    paths = [each.min_key.decode() for each in chosen]
    with recorded_reads() as reads:
        view = repo.at("main@")
        view.stat(paths[0])
        view.lookup(paths)
        view.lookup([*paths, "0", "\U0010ffff"])
        view.stat(paths[1])
    # A single object is read with its data block alone: that may be several parts of a file.
    assert set(reads) == {each.id for each in chosen}


def test_open_ranges_are_bounded(layered: tuple[Repository, dict[str, int]]) -> None:
    repo, contents = layered
    repo.branch("main").commit("all")
    ranges = repo.tree("main").ranges
    opened = OpenRanges(repo._context.store, max_bytes=10_000)
    for each in ranges:
        opened.get_many([each])
    assert 0 < sum(each.size for each in opened._open.values()) <= 10_000
    none = OpenRanges(repo._context.store, max_bytes=10)
    assert sum(len(each.block) for each in none.get_many(ranges)) == len(contents)
    assert len(none._open) == 0


@pytest.mark.parametrize("max_bytes", [10, 10_000, 1 << 20])
def test_many_keys_are_looked_up_as_single_ones_are(
    layered: tuple[Repository, dict[str, int]], max_bytes: int
) -> None:
    repo, _ = layered
    repo.branch("main").commit("all")
    ranges = repo.tree("main").ranges
    keys = sorted(key for path in PATHS for key in (path.encode(), f"{path}-gone".encode()))
    keys = [b"", *keys, b"\xff"]
    one, other = (OpenRanges(repo._context.store, max_bytes) for _ in range(2))
    for some in (keys, keys[::7], keys[:1], keys[-1:], []):
        found = one.lookup_many(ranges, some)
        assert found == [other.lookup(ranges, each) for each in some]
    assert any(found is not None for found in one.lookup_many(ranges, keys))
    assert one.lookup_many((), keys) == [None] * len(keys)


def test_what_is_damaged_is_not_kept(layered: tuple[Repository, dict[str, int]]) -> None:
    repo, _ = layered
    repo.branch("main").commit("all")
    each = repo.tree("main").ranges[3]
    root = Path(repo.info.storage_namespace.removeprefix("file://"))
    path = root / tree_file_key(each.id)
    body = path.read_bytes()
    opened = OpenRanges(repo._context.store)
    replace_file(path, bytes([body[0] ^ 1]) + body[1:])
    with pytest.raises(CorruptFileError, match=each.id):
        opened.get_many([each])
    assert not opened._open
    replace_file(path, body)
    (found,) = opened.get_many([each])
    assert found.find(each.min_key) is not None


def replace_file(path: Path, body: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(body)
    new.replace(path)


def test_a_single_object_opens_one_data_block(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("large", str(folder / "large"))
    sizes = {f"k/{number:05}": number for number in range(6000)}
    stage_sizes(repo.branch("main"), sizes)
    repo.branch("main").commit("all")
    view = repo.at("main@")
    opened = repo._context.open_ranges
    assert view.stat("k/01234").size == 1234
    assert not view.exists("k/01234x")
    (packed,) = opened._packed.values()
    assert not opened._open
    assert isinstance(packed._records, DataBlocks)
    directory = packed._records.table.directory
    assert len(directory.last_keys) > 20
    assert len(directory.ids) == 0, "ids take most of the memory of a directory"
    assert directory.numbers.base is None, "nor are they kept by a part of their bytes"
    with mock.patch.object(FetchedContent, "__getitem__", autospec=True) as read:
        read.side_effect = _READ
        assert view.stat("k/02345").size == 2345
    ((_, part),) = (each.args for each in read.call_args_list)
    assert part.stop - part.start < 64 * 1024
    assert not packed._records.table.contents, "nothing stays open"
    # Asked more often, it is opened in full.
    for number in range(2000):
        assert view.stat(f"k/{number:05}").size == number
    assert opened._open
    assert not view.exists("zzz")


def test_where_memory_is_full_ranges_stay_packed(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("packed", str(folder / "packed"))
    stage_sizes(repo.branch("main"), {f"k/{number:05}": number for number in range(6000)})
    ranges = repo.tree(repo.branch("main").commit("all").id).ranges
    opened = OpenRanges(repo._context.store, max_bytes=6000 * 48)
    for number in range(2000):
        key = b"k/%05d" % number
        (each,) = [each for each in ranges if each.min_key <= key <= each.max_key]
        assert opened.find(each, key) is not None
    assert opened._packed
    assert not opened._open


@pytest.mark.parametrize("max_bytes", [10, 400_000, 600_000, 1_250_000, 1 << 30])
def test_many_keys_where_memory_is_full(lake: Lake, folder: Path, max_bytes: int) -> None:
    """Kernels find them in packed ranges, and no open range is dropped for them."""
    repo = lake.create_repository(f"full-{max_bytes}", str(folder / "full"), range_records=1000)
    stage_sizes(repo.branch("main"), {f"k/{number:05}": number for number in range(6000)})
    ranges = repo.tree(repo.branch("main").commit("all").id).ranges
    opened = OpenRanges(repo._context.store, max_bytes)
    opened.get_many([ranges[0]])
    kept = list(opened._open)
    keys = [b"k/%05d%s" % (number, end) for number in range(0, 6000, 5) for end in (b"", b"x")]
    for some in ([b"", *keys, b"\xff"], keys[::7], [b"", b"\xff"]):
        seen: list[bytes] = []
        for block, places in RangeLayer(opened, ranges).found(some):
            assert [key for key, _ in block.records()] == [some[place] for place in places]
            seen += (key for key, _ in block.records())
        assert seen == [key for key in some if key[:1] == b"k" and len(key) == 7]
    if is_compiled():
        assert set(kept) <= set(opened._open)
        assert len(kept) == (max_bytes > 10)
        assert (len(opened._open) == len(ranges)) == (max_bytes == 1 << 30)


def test_whole_files_count_as_memory(lake: Lake, folder: Path) -> None:
    """Stores other than local ones give whole files."""
    repo = lake.create_repository("bytes", str(folder / "bytes"), range_records=1000)
    stage_sizes(repo.branch("main"), {f"k/{number:05}": number for number in range(6000)})
    ranges = repo.tree(repo.branch("main").commit("all").id).ranges

    def whole(_: LocalStore, keys: Sequence[str]) -> Iterator[bytes]:
        for key in keys:
            yield (folder / "bytes" / key).read_bytes()

    opened = OpenRanges(repo._context.store, max_bytes=10, packed_bytes=600_000)
    with mock.patch.object(LocalStore, "get_many", whole):
        for each in ranges:
            assert opened.find(each, each.min_key) is not None
    held = [each._records.table.file for each in opened._packed.values()]
    assert 0 < sum(map(len, held)) <= 600_000
