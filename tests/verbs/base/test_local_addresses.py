"""Local files: records have lakeFS's `local://` addresses, and old `file://` ones stay readable."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from hashlib import md5
from pathlib import Path
from posixpath import normpath

import pyarrow as pa
import pytest

from sparklake import Branch, Repository
from sparklake.errors import InvalidImportError, PurgeBlockedError
from sparklake.graveler.entries import AddressType, Entry, record_entry
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.rows.imports import IMPORT_SCHEMA
from sparklake.testing.lakes import commit_all, contents, memory_lake, stage_table
from tests.support.foreign import foreign_record, restored_tree

NAMES = ["a", "b/c d", "b/.hidden", "é%20", "z"]


@pytest.fixture
def source(folder: Path) -> Path:
    for name in NAMES:
        file = folder / "source" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(name.encode())
    return folder / "source"


@pytest.fixture
def repo(folder: Path) -> Repository:
    return memory_lake().create_repository("lake", str(folder / "namespace"), range_records=2)


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


def stored_entries(repo: Repository) -> Iterable[Entry]:
    """Yield the entries of main's head as its ranges contain them."""
    tree = repo._context.tree(repo.resolve("main"))
    for block in read_ranges(repo._context.store, tree.ranges):
        yield from map(record_entry, block.records())


def entry_of(file: Path, address: str) -> Entry:
    body = file.read_bytes()
    digest = md5(body, usedforsecurity=False).hexdigest()
    return Entry(address, len(body), digest, 10**9, address_type=AddressType.FULL)


def row_of(path: str, file: Path, address: str) -> dict[str, object]:
    entry = entry_of(file, address)
    return {"path": path, "size": entry.size, "checksum": entry.checksum, "address": address}


def is_read_by_lakefs(address: str) -> bool:
    """Repeat the check of lakeFS's local adapter: an absolute and clean path."""
    path = address.removeprefix("local://")
    return address.startswith("local://") and path.startswith("/") and normpath(path) == path


def test_an_import_writes_addresses_that_lakefs_reads(
    repo: Repository, main: Branch, source: Path
) -> None:
    main.import_objects(str(source), replace=True)
    assert {each.address for each in stored_entries(repo)} == {
        f"local://{source}/{name}" for name in NAMES
    }
    assert all(is_read_by_lakefs(each.address) for each in stored_entries(repo))
    assert [each.address for each in repo.objects("main")] == sorted(
        f"file://{source}/{name}" for name in NAMES
    )
    assert contents(repo, "main") == {name: name.encode() for name in NAMES}
    assert repo.stat("main", "b/c d").address == f"file://{source}/b/c d"
    assert repo.read_bytes("main", "b/c d") == b"b/c d"


@pytest.mark.parametrize(
    "spelling", ["file://{}", "local://{}", "file://localhost{}", "file:///.{}", "file:///x/..{}"]
)
def test_staged_addresses_are_stored_clean(
    repo: Repository, main: Branch, source: Path, spelling: str
) -> None:
    main.stage(stage_table([row_of("k", source / "a", spelling.format(source / "a"))]))
    main.commit("staged")
    assert [each.address for each in stored_entries(repo)] == [f"local://{source}/a"]
    assert repo.read_bytes("main", "k") == b"a"


def test_both_forms_are_read_exported_and_collected(folder: Path, source: Path) -> None:
    lake = memory_lake()
    (folder / "ns" / "data").mkdir(parents=True)
    inside = {name: folder / "ns" / "data" / name for name in ("x", "y", "gone")}
    for name, file in inside.items():
        file.write_bytes(name.encode())
    entries = {
        "a": entry_of(source / "a", f"file://{source}/a"),
        "b": entry_of(source / "z", f"local://{source}/z"),
        "x": entry_of(inside["x"], f"file://{inside['x']}"),
        "y": entry_of(inside["y"], f"local://{inside['y']}"),
    }
    records = [foreign_record(path, each) for path, each in entries.items()]
    repo = restored_tree(lake, folder / "ns", records)
    expected = {"a": b"a", "b": b"z", "x": b"x", "y": b"y"}
    assert contents(repo, "main") == expected
    assert {path: repo.read_bytes("main", path) for path in expected} == expected
    repo.export("main", str(folder / "export"))
    assert {path: (folder / "export" / path).read_bytes() for path in expected} == expected
    repo.collect_garbage(grace=timedelta())
    assert {name for name, file in inside.items() if file.exists()} == {"x", "y"}


@pytest.mark.parametrize("scheme", ["file", "local"])
def test_bytes_are_shared_in_either_form(
    repo: Repository, main: Branch, folder: Path, scheme: str
) -> None:
    commit_all(main, {"own": b"own"}, "own")
    place = Path(repo.stat("main", "own").address.removeprefix("file://"))
    (folder / "link").symlink_to(place.parent)
    linked = folder / "link" / place.name
    main.stage(stage_table([row_of("copy", place, f"{scheme}://{linked}")]))
    main.delete("own")
    main.commit("a copy by another spelling")
    with pytest.raises(PurgeBlockedError, match="'own'"):
        repo.purge(["own"])
    repo.collect_garbage(grace=timedelta())
    assert repo.read_bytes("main", "copy") == b"own"


def test_a_purge_by_address_deletes_the_file(repo: Repository, main: Branch, source: Path) -> None:
    main.import_objects(str(source), replace=True)
    commit_all(main, {"a": None}, "forget")
    repo.purge(["a"], include_external=True)
    assert not (source / "a").exists()
    assert (source / "z").exists()


def test_an_address_in_the_namespace_is_refused_in_either_form(
    repo: Repository, main: Branch
) -> None:
    inside = repo.info.storage_namespace.removeprefix("file://") + "/data/x"
    for scheme in ("file", "local"):
        row = {"path": "k", "size": 1, "checksum": "c", "address": f"{scheme}://{inside}"}
        with pytest.raises(InvalidImportError, match="1 own_namespace"):
            main.import_objects(pa.Table.from_pylist([row], schema=IMPORT_SCHEMA))


def test_equal_ranges_of_both_forms_name_one_object(folder: Path) -> None:
    """A range with `file://` addresses exists; the same objects are staged with `local://`."""
    lake, source = memory_lake(), folder / "source"
    source.mkdir()
    (source / "a").write_bytes(b"a")
    old = entry_of(source / "a", f"file://{source}/a")
    repo = restored_tree(lake, folder / "ns", [foreign_record("a", old)])
    main = repo.branch("main")
    commit_all(main, {"a": None}, "removed")
    main.stage(stage_table([row_of("a", source / "a", f"file://{source}/a")]))
    main.commit("staged again")
    assert contents(repo, "main") == {"a": b"a"}
