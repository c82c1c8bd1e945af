"""Imported entries have lakeFS's identity, and entries of earlier versions stay what they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklake import Branch, Repository
from sparklake.errors import MergeConflictError, NoChangesError
from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.graveler.entries import AddressType, record_entry
from sparklake.graveler.records import identity_of
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import commit_all, contents, memory_lake
from sparklake.udfs.imports import row_checks

Rows = list[dict[str, Any]]


@pytest.fixture
def repo(folder: Path) -> Repository:
    return memory_lake().create_repository("lake", str(folder / "ns"), range_records=3)


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


def rows_of(sums: Mapping[str, str]) -> Rows:
    return [
        {"path": path, "size": 1, "checksum": checksum, "address": f"s3://bucket/{path}"}
        for path, checksum in sums.items()
    ]


def table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=IMPORT_SCHEMA)


def import_rows(branch: Branch, rows: Rows, prefix: str = "", replace: bool = True) -> str:
    return branch.import_objects(table(rows), prefix, replace=replace).commit.id


def import_as_before(branch: Branch, rows: Rows, prefix: str = "", replace: bool = True) -> str:
    """Import as earlier versions did: with the content type of uploads."""
    with mock.patch.object(row_checks, "IMPORTED_CONTENT_TYPE", DEFAULT_CONTENT_TYPE):
        return import_rows(branch, rows, prefix, replace)


def types_of(repo: Repository, ref: str) -> dict[str, str]:
    return {each.path: each.content_type for each in repo.objects(ref)}


def test_an_entry_is_what_lakefs_would_write(repo: Repository, main: Branch, folder: Path) -> None:
    """The identity is hashed here from lakeFS's formula: no content type, no metadata."""
    (folder / "source").mkdir()
    (folder / "source" / "a").write_bytes(b"body")
    main.import_objects(str(folder / "source"))
    (block,) = read_ranges(repo._context.store, repo._context.tree(repo.resolve("main")).ranges)
    ((key, stored),) = block.records()
    digest = hashlib.md5(b"body", usedforsecurity=False).hexdigest()

    def int64(value: int) -> bytes:
        return b"\x02\x08" + value.to_bytes(8, "big")

    size_and_etag = int64(4) + b"\x01" + int64(32) + digest.encode()
    assert identity_of(key, stored) == hashlib.sha256(size_and_etag + b"\x04" + int64(0)).digest()
    entry = record_entry((key, stored))
    assert (entry.content_type, entry.metadata, entry.address_type) == ("", {}, AddressType.FULL)
    assert entry.address == f"local://{folder}/source/a"


@pytest.mark.parametrize("replace", [True, False])
def test_an_unchanged_tree_is_no_change_in_an_old_lake(
    repo: Repository, main: Branch, replace: bool
) -> None:
    rows = rows_of({f"k{number:02}": "c" for number in range(20)})
    import_as_before(main, rows, "in")
    with pytest.raises(NoChangesError):
        import_rows(main, rows, "in", replace)
    assert set(types_of(repo, "main").values()) == {DEFAULT_CONTENT_TYPE}


@pytest.mark.parametrize("replace", [True, False])
def test_only_what_changed_is_a_change_in_an_old_lake(
    repo: Repository, main: Branch, replace: bool
) -> None:
    before = {f"k{number:02}": "c" for number in range(20)}
    import_as_before(main, rows_of(before), "in")
    commit_all(main, {"other": b"1"}, "other")
    after = {**before, "k03": "changed", "new": "c"}
    del after["k10"]
    import_rows(main, rows_of(after), "in", replace)
    removed = {("removed", "in/k10")} if replace else set()
    assert {(each.type.value, each.path) for each in repo.diff("main~1", "main")} == {
        ("changed", "in/k03"),
        ("added", "in/new"),
        *removed,
    }
    assert types_of(repo, "main")["in/k03"] == types_of(repo, "main")["in/new"] == ""


def test_other_differences_count(repo: Repository, main: Branch) -> None:
    (row,) = rows_of({"a": "c"})
    import_as_before(main, [row])
    for change in ({"size": 2}, {"content_type": "text/csv"}, {"metadata": [("k", "v")]}):
        import_rows(main, [{**row, **change}])
        assert [each.path for each in repo.diff("main~1", "main")] == ["a"]
        import_as_before(main, [{**row, "checksum": str(change)}])
        import_as_before(main, [row])


@pytest.mark.usefixtures("healthy_at_end")
def test_objects_that_were_put_are_no_change(repo: Repository, main: Branch, folder: Path) -> None:
    commit_all(main, {"a": b"1"}, "put")
    (folder / "source").mkdir()
    (folder / "source" / "a").write_bytes(b"1")
    with pytest.raises(NoChangesError):
        main.import_objects(str(folder / "source"))


def test_old_and_new_imports_of_equal_objects_do_not_conflict(
    repo: Repository, main: Branch
) -> None:
    dev = repo.create_branch("dev", "main")
    import_as_before(main, rows_of({"a": "c", "b": "c"}))
    import_rows(dev, rows_of({"a": "c", "b": "c", "new": "c"}))
    preview = repo.preview_merge("dev", "main")
    assert (preview.conflict_count, preview.conflicts, preview.added) == (0, (), 1)
    found = repo.diff("main", "dev", three_way=True)
    assert [(each.type.value, each.path) for each in found] == [("added", "new")]
    repo.merge("dev", "main")
    assert types_of(repo, "main") == {
        "a": DEFAULT_CONTENT_TYPE,
        "b": DEFAULT_CONTENT_TYPE,
        "new": "",
    }


def test_other_conflicts_stay(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    import_as_before(main, rows_of({"a": "c", "b": "c"}))
    import_rows(dev, rows_of({"a": "other", "b": "c"}))
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main")
    assert raised.value.count == 1
    preview = repo.preview_merge("dev", "main")
    assert (preview.conflict_count, [each.path for each in preview.conflicts]) == (1, ["a"])
    repo.merge("dev", "main", strategy="source-wins")
    assert types_of(repo, "main") == {"a": "", "b": DEFAULT_CONTENT_TYPE}


@pytest.mark.usefixtures("healthy_at_end")
def test_a_removed_folder_is_imported_anew(repo: Repository, main: Branch, folder: Path) -> None:
    """The way to lakeFS's identities and addresses in an old lake."""
    (folder / "source").mkdir()
    (folder / "source" / "a").write_bytes(b"1")
    with mock.patch.object(row_checks, "IMPORTED_CONTENT_TYPE", DEFAULT_CONTENT_TYPE):
        main.import_objects(str(folder / "source"))
    commit_all(main, {"a": None}, "removed")
    main.import_objects(str(folder / "source"))
    assert types_of(repo, "main") == {"a": ""}
    assert contents(repo, "main") == {"a": b"1"}


keys = st.sampled_from([f"k{number}" for number in range(8)])
sums = st.sampled_from(["c", "d"])
trees = st.dictionaries(keys, sums, min_size=1)


@settings(max_examples=40)
@given(trees, trees, st.booleans(), st.sampled_from(["", "in"]))
def test_an_import_into_an_old_lake_is_a_dictionary(
    before: dict[str, str], after: dict[str, str], replace: bool, prefix: str
) -> None:
    prefix = prefix if replace else "in"  # The root needs a replacement.
    with memory_folder() as folder:
        repo = memory_lake().create_repository("lake", str(folder / "ns"), range_records=2)
        main = repo.branch("main")
        commit_all(main, {"a": b"", "z": b""}, "around")
        start = f"{prefix}/" if prefix else ""
        import_as_before(main, rows_of(before), prefix, True)
        old = {each.path: each for each in repo.objects("main")}
        try:
            import_rows(main, rows_of(after), prefix, replace)
        except NoChangesError:
            assert {**before, **after} == before
        new = {each.path: (each.checksum, each.content_type) for each in repo.objects("main")}
        gone = {path for path in old if replace and path.startswith(start)}
        expected = {
            path: (each.checksum, each.content_type)
            for path, each in old.items()
            if path not in gone
        }
        for path, checksum in after.items():
            same = before.get(path) == checksum
            expected[start + path] = (checksum, DEFAULT_CONTENT_TYPE if same else "")
        assert new == expected


def test_rows_of_imported_objects_are_the_same_when_they_are_staged(
    repo: Repository, main: Branch
) -> None:
    import_rows(main, rows_of({"a": "c", "b": "c"}))
    main.copy_many([("a", "a")])
    main.stage(repo.objects("main").to_arrow())
    with pytest.raises(NoChangesError):
        main.commit("nothing")
    main.move("a", "moved")
    main.commit("moved")
    assert types_of(repo, "main") == {"b": "", "moved": ""}
