"""Imports of rows: what becomes of good ones and of bad ones, in both modes, whatever happens."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklake import Branch, ImportReport, InvalidImportError, Lake, Repository
from sparklake.errors import (
    DirtyBranchError,
    InvalidInputError,
    InvalidRowsError,
    NoChangesError,
    ReplacementError,
)
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.ports import StoredFolder
from sparklake.graveler.records import encode_record
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.stores.objects import open_store
from sparklake.stores.objects.listings import ListingPart, split_listing
from sparklake.strategies.path_globs import is_excluded
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import commit_all, memory_lake, namespace_of
from sparklake.udfs.imports import tasks as writing
from sparklake.udfs.imports.source_listing import read_listing
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.imports import import_objects as imports
from tests.support.interleaved_calls import just_before
from tests.support.lakes import paths, put_sizes, refused, stage_sizes

EPOCH = datetime(2020, 1, 1, tzinfo=timezone.utc)
LONG = "k" * 1024


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    return small_lake.create_repository("lake", str(folder / "namespace"), range_records=4)


def row(path: str | None, **given: Any) -> dict[str, Any]:
    made = {"path": path, "size": 1, "checksum": "c", "address": f"s3://bucket/{path}"}
    return {**made, "mtime": EPOCH, **given}


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=IMPORT_SCHEMA)


def reasons(found: Any) -> list[tuple[str | None, str]]:
    return [(each["path"], each["reason"]) for each in found.errors.to_pylist()]


# --- against a model ------------------------------------------------------------------------------

PATHS = {
    "a": None,
    "b": None,
    "b/c d": None,
    "x=1/p%20": None,
    "é/ü": None,
    ".hidden": None,
    "b/./c": None,
    "z" * 900: None,
    "": "invalid_path",
    "/a": "invalid_path",
    "a/../b": "invalid_path",
    "a\0b": "invalid_path",
    LONG + "k": "invalid_path",
}
ADDRESSES = {
    "s3://bucket/a": None,
    "s3a://bucket/b c": None,
    "s3://bucket/.odd": None,
    "file:///data/x": None,
    "data/x": "invalid_address",
    "gs://bucket/a": None,
    "hdfs://name/a": "invalid_address",
    "s3://bucket": "invalid_address",
    "s3://bucket/a/../b": "invalid_address",
    "s3://user:password@bucket/a": "invalid_address",
    "NAMESPACE/data/x": "own_namespace",
    "NAMESPACE/../namespace/data/x": "own_namespace",
}
METADATA = {"none": None, "some": None, "null": "invalid_text", "large": "too_large"}
VALUES = {
    "none": [],
    "some": [("k", "v")],
    "null": [("k", None)],
    "large": [("k", "v" * (64 * 1024))],
}
often = st.sampled_from
specs = st.fixed_dictionaries(
    {
        "path": often([*PATHS, *["a", "b", "c", "d", None]]),
        "size": often([0, 1, 2, 3, 4, 5, -1, None]),
        "address": often([*["s3://bucket/a", "s3://bucket/b"] * 3, *ADDRESSES, None]),
        "mtime": often([0, 1, 2, 3, None]),
        "metadata": often(["none"] * 5 + list(METADATA)),
    }
)


def expected_reason(spec: dict[str, Any]) -> str | None:
    if spec["path"] is None:
        return "missing_path"
    if (reason := PATHS.get(spec["path"])) is not None:
        return reason
    if spec["size"] is None:
        return "missing_size"
    if spec["size"] < 0:
        return "invalid_size"
    if spec["address"] is None:
        return "missing_address"
    return ADDRESSES.get(spec["address"]) or METADATA[spec["metadata"]]


def expected_tree(
    good: Sequence[dict[str, Any]], now: int
) -> tuple[dict[str, set[tuple[int, str]]], Counter[tuple[str | None, str]]]:
    """Return what stands of each path, and how many rows of it do not."""
    tree: dict[str, set[tuple[int, str]]] = {}
    lost: Counter[tuple[str | None, str]] = Counter()

    def rank(each: dict[str, Any]) -> tuple[int, str]:
        return -(now if each["mtime"] is None else each["mtime"]), each["address"]

    for path in {each["path"] for each in good}:
        group = [each for each in good if each["path"] == path]
        least = min(map(rank, group))
        tree[path] = {(each["size"], each["address"]) for each in group if rank(each) == least}
        if len(group) > 1:
            lost[path, "duplicate_path"] = len(group) - 1
    return tree, lost


@settings(max_examples=40)
@given(st.lists(specs, max_size=24), st.booleans(), st.sampled_from(["", "in"]))
def test_rows_with_defects(given_specs: list[dict[str, Any]], replace: bool, prefix: str) -> None:
    """Exactly the bad rows are errors; the rest is the tree that a dictionary would be."""
    prefix = prefix if replace else "in"  # The root needs a replacement.
    with memory_folder() as folder:
        lake = memory_lake()
        repo = lake.create_repository("lake", str(folder / "namespace"), range_records=4)
        namespace = repo.info.storage_namespace
        main = repo.branch("main")
        # Without a replacement, no object may be at an imported path.
        before = {"a": 50, "in/a": 51, "in/old": 52, "other": 53} if replace else {"out/x": 54}
        put_sizes(main, before)
        main.commit("before")
        specs_here = [
            {**each, "address": each["address"] and each["address"].replace("NAMESPACE", namespace)}
            for each in given_specs
        ]
        rows = [
            row(
                each["path"],
                size=each["size"],
                address=each["address"],
                mtime=None if each["mtime"] is None else EPOCH + timedelta(seconds=each["mtime"]),
                metadata=VALUES[each["metadata"]],
            )
            for each in specs_here
        ]
        start = f"{prefix}/" if prefix else ""
        bad = Counter(
            (None if each["path"] is None else start + each["path"], reason)
            for each in given_specs
            if (reason := expected_reason(each)) is not None
        )
        good = [
            {
                **each,
                "path": start + each["path"],
                "address": each["address"].replace("s3a://", "s3://"),
            }
            for each, known in zip(specs_here, given_specs, strict=True)
            if expected_reason(known) is None
        ]
        tree, lost = expected_tree(good, now=10**9)
        errors = bad + lost
        if errors:
            with refused(lake, InvalidImportError, "nothing was imported from rows") as raised:
                main.import_objects(table(rows), prefix, replace=replace)
            assert Counter(reasons(raised.value)) == errors
        if not good:
            with refused(lake, InvalidImportError if errors else InvalidInputError, "nothing was"):
                main.import_objects(table(rows), prefix, replace=replace, on_error="skip")
            return
        done = main.import_objects(table(rows), prefix, replace=replace, on_error="skip")
        assert Counter(reasons(done)) == errors
        assert (done.skipped, done.objects) == (sum(errors.values()), len(tree))
        kept = {
            path
            for path in before
            if path not in tree and (not replace or not path.startswith(start))
        }
        found = {each.path: each for each in repo.objects("main")}
        assert set(found) == kept | set(tree)
        for path, stands in tree.items():
            assert (found[path].size, found[path].address) in stands
        for path in kept:
            assert found[path].size == before[path]


# --- modes ----------------------------------------------------------------------------------------


def test_adding_takes_ranges_over_where_nothing_else_is(repo: Repository, main: Branch) -> None:
    stage_sizes(main, {f"k/{number:03d}": 1 for number in range(40)})
    main.commit("base")
    before = {each.id for each in repo.tree("main").ranges}
    rows = [row(f"{number:03d}", content_type="text/plain") for number in range(60)]
    main.import_objects(table(rows), "z/z")
    after = {each.id for each in repo.tree("main").ranges}
    assert len(before - after) <= 1, "only the open end of the base was written anew"
    assert len(paths(repo, "main")) == 100
    twin = repo.create_branch("twin", "main~1")
    twin.stage(table([{**each, "path": f"z/z/{each['path']}"} for each in rows]))
    assert twin.commit("staged").meta_range_id == main.head.meta_range_id
    with pytest.raises(NoChangesError):
        main.import_objects(table(rows), "z/z")
    main.import_objects(table(rows[:3]), "z/z", replace=True)
    assert paths(repo, "main", "z/") == ["z/z/000", "z/z/001", "z/z/002"]


def test_of_rows_of_one_path_the_latest_stands(repo: Repository, main: Branch) -> None:
    """And of those of one time the least address, in whatever order they come."""
    later = EPOCH + timedelta(seconds=1)
    rows = [
        row("a", address="s3://bucket/1"),
        row("a", address="s3://bucket/3", mtime=later, size=3),
        row("a", address="s3://bucket/2", mtime=later, size=2),
    ]
    for number, order in enumerate((rows, rows[::-1], [rows[2], rows[0], rows[1]])):
        branch = repo.create_branch(f"branch-{number}", "main")
        done = branch.import_objects(table(order), on_error="skip")
        assert reasons(done) == [("a", "duplicate_path")] * 2
        assert [each.address for each in repo.objects(branch.name)] == ["s3://bucket/2"]


def test_many_rows_of_one_path(repo: Repository, main: Branch, folder: Path) -> None:
    """More than there are in a block, and in a file of errors, of which no one is lost."""
    count = 70_000
    address = [f"s3://bucket/{number:06d}" for number in range(count)]
    same = pa.table({"path": ["k"] * count, "size": [1] * count, "address": address})
    rows = same.append_column("checksum", pa.array(["c"] * count))
    place = folder / "errors"
    done = main.import_objects(rows, on_error="skip", errors_to=str(place))
    assert done.counts == {"duplicate_path": count - 1}
    assert done.errors.num_rows == imports.MAX_ERRORS
    written = [pq.read_table(each) for each in sorted(place.glob("*.parquet"))]
    assert len(written) == 2
    found = pa.concat_tables(written)["address"].to_pylist()
    assert sorted(found) == address[1:]
    assert [each.address for each in repo.objects("main")] == address[:1]


def changes_of(report: ImportReport) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.removed, report.retained


@contextmanager
def needs_replacement(
    branch: Branch, words: str
) -> Iterator[pytest.ExceptionInfo[ReplacementError]]:
    before = branch.state
    with pytest.raises(ReplacementError, match=words) as raised:
        yield raised
    assert branch.state == before


def test_an_import_changes_only_what_its_source_brought(
    repo: Repository, main: Branch, folder: Path
) -> None:
    """Corrections and the objects of others need a replacement, which reports its changes."""
    place = place_of(folder, [f"n/{number:02d}" for number in range(12)])
    commit_all(main, {"raw/n/own": b"own", "beside": b"beside"}, "others'")
    assert changes_of(main.import_objects(place, "raw")) == (12, 0, 0, 1)
    (place / "n/03").unlink()
    (place / "n/04").write_bytes(b"changed")
    (place / "n/12").write_bytes(b"added")
    assert changes_of(main.import_objects(str(place), "raw/")) == (1, 1, 1, 1)
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"raw/n/05": b"correct", "raw/n/06": b"too"}, "corrections")
    repo.merge("dev", "main")
    message = "it would change 2 objects that this source did not bring: 'raw/n/05', 'raw/n/06'"
    with needs_replacement(main, message) as raised:
        main.import_objects(place, "raw")
    assert (raised.value.added, raised.value.changed, raised.value.removed) == (0, 2, 1)
    (place / "n/13").write_bytes(b"added")
    report = main.import_objects(place, "raw", exclude=["05", "n/06"])
    assert changes_of(report) == (1, 0, 0, 1)
    other = repo.create_branch("other", "main")
    assert changes_of(main.import_objects(place, "raw", exclude=["n/05"], replace=True)) == (
        0,
        1,
        1,
        0,
    )
    assert changes_of(other.import_objects(place, "raw", replace=True)) == (0, 2, 1, 0)
    assert paths(repo, "main") == ["beside", *(f"raw/n/{n:02d}" for n in range(14) if n != 3)]
    assert repo.read_bytes("main", "raw/n/05") == b"correct"
    assert repo.read_bytes("other", "raw/n/05") == b"n/05"


def test_an_import_to_the_root_of_a_branch_with_objects_needs_a_replacement(
    small_lake: Lake, repo: Repository, main: Branch, folder: Path
) -> None:
    place = place_of(folder, ["a", "b"])
    assert changes_of(main.import_objects(place)) == (2, 0, 0, 0)
    with refused(small_lake, NoChangesError, "already has all of these objects under '/'"):
        main.import_objects(place)
    (place / "c").write_bytes(b"c")
    with needs_replacement(main, "the prefix is empty, .* [(]1 added, 0 changed"):
        main.import_objects(place)
    assert changes_of(main.import_objects(place, replace=True)) == (1, 0, 0, 0)
    (place / "a").unlink()
    assert changes_of(main.import_objects(place, replace=True)) == (0, 0, 1, 0)


def test_excluded_paths() -> None:
    expected = {
        "*.tmp": ["a.tmp", "x/a.tmp", "a.tmp/b"],
        "_log/": ["_log/1", "x/_log/y/1"],
        "x/_log": ["x/_log/y/1"],
        "x/**/1": ["x/_log/y/1"],
    }
    names = ["a", "a.tmp", "x/a.tmp", "a.tmp/b", "_log/1", "x/_log/y/1", "x/b"]
    found = {glob: [each for each in names if is_excluded([glob], each)] for glob in expected}
    assert found == expected


# --- errors ---------------------------------------------------------------------------------------


def test_texts_that_are_not_utf8(main: Branch, repo: Repository) -> None:
    def spoiled(*texts: bytes) -> pa.Array:
        return pa.array(texts, pa.binary()).view(pa.string())

    rows = pa.table(
        {
            "path": spoiled(b"a", b"\xff", b"b", b"c", b"d"),
            "size": [1] * 5,
            "address": spoiled(
                *[b"s3://bucket/x"] * 2, b"s3://bucket/\xfe", *[b"s3://bucket/x"] * 2
            ),
            "checksum": spoiled(*[b"c"] * 3, b"\xfd", b"c"),
        }
    )
    done = main.import_objects(rows, on_error="skip")
    assert sorted(reasons(done)) == [
        ("\\xff", "invalid_path"),
        ("b", "invalid_address"),
        ("c", "invalid_text"),
    ]
    assert paths(repo, "main") == ["a", "d"]


def test_the_table_of_errors(main: Branch, small_lake: Lake, folder: Path) -> None:
    rows = table([row("a"), row("b", size=-1), row(None)])
    for place in (folder / "namespace" / "errors", folder):
        with refused(small_lake, InvalidInputError, "overlaps the storage namespace"):
            main.import_objects(rows, errors_to=str(place))
    with pytest.raises(
        InvalidImportError, match=r"1 invalid_size, 1 missing_path.*all of them are in"
    ):
        main.import_objects(rows, errors_to=str(folder / "errors"))
    (file,) = (folder / "errors").glob("*.parquet")
    assert pq.read_table(file)["reason"].to_pylist() == ["missing_path", "invalid_size"]
    with refused(small_lake, InvalidInputError, "not empty: choose a new location"):
        main.import_objects(rows, errors_to=str(folder / "errors"))
    main.import_objects(table([row("a")]), errors_to=str(folder / "none"))
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exclude": "*.tmp"}, "the paths to exclude must be a list of globs, not '[*].tmp'"),
        ({"exclude": ["a/***"]}, "must be between slashes"),
        ({"on_error": "ignore"}, "'ignore' is not a valid on_error of an import: choose abort"),
    ],
)
def test_choices(main: Branch, small_lake: Lake, options: dict[str, Any], words: str) -> None:
    with refused(small_lake, InvalidInputError, words):
        main.import_objects(table([row("a")]), **options)


def test_columns(main: Branch, small_lake: Lake) -> None:
    for rows in (
        pa.table({"path": ["a"], "size": [1]}),
        pa.table({"path": ["a"], "size": [1], "address": ["s3://bucket/a"], "deleted": [True]}),
    ):
        with refused(small_lake, InvalidRowsError, "cannot be imported: .* are required"):
            main.import_objects(rows)
    with refused(small_lake, InvalidRowsError, "the column size is string; it must be int64"):
        main.import_objects(pa.table({"path": ["a"], "size": ["1"], "address": ["s3://bucket/a"]}))
    with refused(small_lake, InvalidInputError, "list cannot be imported: use"):
        main.import_objects([row("a")])  # type: ignore[arg-type]
    with refused(small_lake, InvalidInputError, "rows contains no objects"):
        main.import_objects(table([]))


def test_a_checksum_is_computed_where_it_is_missing(
    main: Branch, repo: Repository, folder: Path
) -> None:
    (folder / "there").write_bytes(b"there")
    there, gone = (f"file://{folder}/{name}" for name in ("there", "gone"))
    rows = [
        row("a", address=there, checksum=None),
        row(".b", address=there, checksum=""),
        row("c", address=gone, checksum=None),
        row("d", address=gone),
    ]
    done = main.import_objects(table(rows), on_error="skip")
    assert reasons(done) == [("c", "missing_object")]
    md5 = hashlib.md5(b"there", usedforsecurity=False).hexdigest()
    found = {each.path: each.checksum for each in repo.objects("main")}
    assert found == {".b": md5, "a": md5, "d": "c"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [1, 2 * 1024 * 1024])
def test_what_is_no_regular_file_has_no_checksum(main: Branch, folder: Path, size: int) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "device").symlink_to(os.devnull)
    (folder / "there").write_bytes(b"there")
    rows = [
        row(name, address=f"file://{folder}/{name}", size=size, checksum=None)
        for name in ("device", "fifo", "there")
    ]
    done = main.import_objects(table(rows), on_error="skip")
    assert reasons(done) == [("device", "missing_object"), ("fifo", "missing_object")]
    assert all(
        "is a FIFO, a socket or a device" in each["message"] for each in done.errors.to_pylist()
    )


def test_an_address_in_the_namespace_by_a_link(
    main: Branch, repo: Repository, small_lake: Lake, folder: Path
) -> None:
    (folder / "link").symlink_to(namespace_of(repo))
    with refused(small_lake, InvalidImportError, "1 own_namespace"):
        main.import_objects(table([row("a", address=f"file://{folder}/link/data/x")]))
    other = small_lake.create_repository("other", str(folder / "namespace-2"))
    inside = other.branch("main").put("k", b"k").address
    main.import_objects(table([row("a", address=inside)]))
    assert repo.read_bytes("main", "a") == b"k"


# --- whatever happens -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("where", ["import_body", "ranges_body", "publish"])
def test_an_import_that_is_stopped(
    repo: Repository,
    main: Branch,
    small_lake: Lake,
    where: str,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is staged and nothing has moved; the next one succeeds, though ranges are there."""
    commit_all(main, {"old": b"old"}, "before")
    whole = vars(imports)[where]

    def stopped(*arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        if where != "publish":
            list(whole(*arguments))
        raise error

    before = main.state
    monkeypatch.setattr(imports, where, stopped)
    with pytest.raises(error):
        main.import_objects(table([row("a"), row("b")]), "in")
    assert main.state == before
    assert paths(repo, "main") == ["old"]
    monkeypatch.undo()
    main.import_objects(table([row("a"), row("b")]), "in")
    assert paths(repo, "main") == ["in/a", "in/b", "old"]


@pytest.mark.parametrize(
    ("replace", "left"), [(False, ["in/a", "in/k", "in/other"]), (True, ["in/a"])]
)
def test_a_commit_in_the_midst_of_an_import(
    repo: Repository, main: Branch, replace: bool, left: list[str]
) -> None:
    commit_all(main, {"in/k": b"k"}, "before")
    again: list[None] = []

    def meanwhile() -> None:
        if not again:
            again.append(None)
            other = repo.create_branch("other", "main")
            commit_all(other, {"in/other": b"other"}, "another writer's")
            repo.merge("other", "main")

    with just_before(type(repo._context.refs.branches), "move", meanwhile):
        report = main.import_objects(table([row("a")]), "in", replace=replace)
    assert paths(repo, "main") == left
    counts = (report.added, report.changed, report.removed, report.retained)
    assert counts == ((1, 0, 2, 0) if replace else (1, 0, 0, 2))


def test_a_dirty_branch(main: Branch) -> None:
    main.put("k", b"k")
    with pytest.raises(DirtyBranchError, match="before you import into it"):
        main.import_objects(table([row("a")]))


# --- listings -------------------------------------------------------------------------------------


def place_of(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        path = folder / "place" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder / "place"


NAMES = [
    "top",
    ".hidden/x",
    "a b/x=1/p%20",
    "a b/x=2/é",
    "deep/er/and/deeper/still/1",
    "deep/er/2",
    *(f"many/{number}/file" for number in range(30)),
    *(f"flat/{number}" for number in range(50)),
]


@pytest.mark.parametrize("wanted", [1, 2, 5, 20, 1000])
def test_parts_together_are_the_source(folder: Path, wanted: int) -> None:
    """Each object is in one of them, however many are wanted."""
    place = place_of(folder, NAMES)
    parts = split_listing(open_store(str(place)), wanted)
    assert len(parts) >= min(wanted, 8)
    work = encode_tasks([each] for each in parts)
    assert work.num_rows == len(parts)
    listed = [
        path
        for each in read_listing(str(place), work.to_batches())
        for path in each["path"].to_pylist()
    ]
    assert sorted(listed) == sorted(NAMES)


def test_a_large_level_is_not_split(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparklake.stores.objects.listings._MAX_ENTRIES", 20)
    parts = split_listing(open_store(str(place_of(folder, NAMES))), 1000)
    assert ListingPart("flat/") in parts
    assert ListingPart("many/") in parts
    assert ListingPart("deep/", level=True) not in parts
    assert all(not each.prefix.startswith("flat/0") for each in parts)


def test_folders_of_a_store(folder: Path) -> None:
    store = open_store(str(place_of(folder, NAMES)))
    level = {each.key: type(each) for each in store.scan("deep/er/", level=True)}
    assert level.pop("deep/er/and/") is StoredFolder
    assert set(level) == {"deep/er/2"}


@pytest.mark.usefixtures("healthy_at_end")
def test_an_import_of_a_listing(repo: Repository, main: Branch, folder: Path) -> None:
    place = place_of(folder, NAMES)
    assert main.import_objects(place, "in").objects == len(NAMES)
    assert {each.path: each.size for each in repo.objects("main")} == {
        f"in/{name}": len(name.encode()) for name in NAMES
    }


def test_an_import_of_one_file(repo: Repository, main: Branch, folder: Path) -> None:
    place = place_of(folder, NAMES)
    main.import_objects(place / "deep", "in")
    before = {each.path for each in repo.objects("main")}
    with needs_replacement(main, "1 object that this source did not bring: 'in/er/2'"):
        main.import_objects(place / "top", "in/er/2")
    main.import_objects(place / "top", "in/er/2", replace=True)
    main.import_objects(str(place / "top"), "in/er/")
    main.import_objects(str(place / "top"))
    assert {each.path for each in repo.objects("main")} == before | {"in/er/top", "top"}
    assert repo.read_bytes("main", "in/er/2") == b"top"


def test_each_record_once_across_blocks() -> None:
    def record(key: str, number: int) -> tuple[bytes, bytes]:
        return encode_record(key.encode(), b"%d" % number, b"")

    keys = ["a", "b", "b", "b", "b", "c", "d", "d"]
    records = [record(key, number) for number, key in enumerate(keys)]
    for size in range(1, len(records) + 1):
        lost: list[int] = []

        def lose(group: list[tuple[bytes, bytes]], lost: list[int] = lost) -> tuple[bytes, bytes]:
            lost.append(len(group) - 1)
            return min(group, key=records.index)

        blocks = [block_of_records(records[at : at + size]) for at in range(0, len(records), size)]
        kept = [each for block in writing.each_once(blocks, lose) for each in block.records()]
        assert kept == [records[at] for at in (0, 1, 5, 6)]
        assert sum(lost) == 4
