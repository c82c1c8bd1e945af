"""A restore takes the manifest that it is given, and refuses one that is not the newest."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sparklake import Lake
from sparklake.errors import CorruptFileError, MissingFileError, NewerDumpError
from sparklake.graveler.dumps.dump import encode_refs, manifest_bytes, read_dump_manifest, read_refs
from sparklake.graveler.ports import BranchState
from sparklake.layout import REFS_MANIFEST_KEY
from sparklake.stores.objects import open_store
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import commit_all, files_below, memory_lake
from tests.support.lakes import stage_sizes

GOLDEN = Path(__file__).parents[2] / "golden"
DAY = 24 * 60 * 60


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


@pytest.fixture
def golden() -> Iterator[Path]:
    """Copy a namespace of lakeFS with its newest dump and the manifest of an older one.

    The newest manifest is the file beside it, as `lakectl refs-dump` prints it.
    """
    with memory_folder() as made:
        for part in ("namespace", "dump"):
            shutil.copytree(GOLDEN / part, made / "ns", dirs_exist_ok=True)
        shutil.move(made / "ns" / REFS_MANIFEST_KEY, made / "newest.json")
        store = open_store(str(made / "ns"))
        store.replace(REFS_MANIFEST_KEY, (made / "newest.json").read_bytes())
        refs = read_refs(store, read_dump_manifest(store))
        older = refs.commits[:2]  # Parents come first.
        at = BranchState("main", older[-1].id)
        manifest, files = encode_refs(replace(refs, branches=(at,), tags=(), commits=older))
        store.put_many_if_absent(files)
        store.replace(REFS_MANIFEST_KEY, manifest_bytes(manifest))
        yield made


def drop_newest_dump(golden: Path) -> None:
    for table in json.loads((golden / "newest.json").read_text()).values():
        (golden / "ns" / "_lakefs" / table).unlink()


def test_a_dump_of_lakefs_with_more_commits_is_newer(lake: Lake, golden: Path) -> None:
    for path in (golden / "ns" / "_lakefs").iterdir():
        os.utime(path, (DAY, DAY))  # Copies have any times.
    before = files_below(golden / "ns")
    with pytest.raises(NewerDumpError, match=r"another dump of lakeFS there has .*--manifest"):
        lake.restore_repository("lake", str(golden / "ns"))
    assert files_below(golden / "ns") == before
    old = lake.restore_repository("lake", str(golden / "ns"), accept_old=True)
    assert len(old.branch_states()) == 1


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_given_manifest_becomes_that_of_the_namespace(
    lake: Lake, golden: Path, scheme: str
) -> None:
    given = golden / "newest.json"
    repo = lake.restore_repository("lake", str(golden / "ns"), manifest=f"{scheme}{given}")
    assert json.loads((golden / "ns" / REFS_MANIFEST_KEY).read_text()) == json.loads(
        given.read_text()
    )
    assert repo.check().is_healthy
    repo.dump_refs()
    again = memory_lake().restore_repository("lake", str(golden / "ns"))
    assert again.branch_states() == repo.branch_states()


def test_a_younger_tree_of_lakefs_is_newer(lake: Lake, golden: Path) -> None:
    drop_newest_dump(golden)
    repo = lake.restore_repository("old", str(golden / "ns"), accept_old=True)
    known = {each.meta_range_id for each in repo._context.refs.snapshot().commits}
    lake.delete_repository("old")
    tables = [each for each in (golden / "ns" / "_lakefs").iterdir() if len(each.name) == 64]
    for path in tables:
        os.utime(path, (DAY, DAY))
    lake.restore_repository("as-old", str(golden / "ns"))
    lake.delete_repository("as-old")
    newest = json.loads((GOLDEN / "listing.json").read_text())["commits"]
    trees = {each["meta_range_id"] for each in newest}
    for path in tables:
        if path.name in trees - known:
            os.utime(path, (DAY + 1, DAY + 1))
    with pytest.raises(NewerDumpError, match="lakeFS has since written trees there, such as _"):
        lake.restore_repository("lake", str(golden / "ns"))
    lake.restore_repository("lake", str(golden / "ns"), accept_old=True)


def test_tables_of_sparklake_are_no_reason(lake: Lake, folder: Path) -> None:
    """Staged runs, later commits and dumps that died leave tables that no dump names."""
    repo = lake.create_repository("lake", str(folder / "ns"), range_records=3)
    main = repo.branch("main")
    commit_all(main, {"a": b"1"}, "a")
    repo.dump_refs()
    before = (folder / "ns" / REFS_MANIFEST_KEY).read_bytes()
    commit_all(main, {"b": b"1"}, "b")
    repo.dump_refs()
    stage_sizes(main, {f"c{number}": 1 for number in range(20)})
    (folder / "ns" / REFS_MANIFEST_KEY).write_bytes(before)
    notes: list[str] = []
    again = memory_lake().restore_repository("lake", str(folder / "ns"), on_note=notes.append)
    head = again.resolve("main")
    assert [each.path for each in again.objects("main")] == ["a"]
    assert "(today), and its newest commit is " in notes[0]
    assert head.id[:12] in notes[0]


def test_the_age_of_a_dump_is_told(lake: Lake, folder: Path) -> None:
    lake.create_repository("lake", str(folder / "ns")).dump_refs()
    for path in (folder / "ns" / "_lakefs").iterdir():
        os.utime(path, (DAY, DAY))
    notes: list[str] = []
    memory_lake().restore_repository("lake", str(folder / "ns"), on_note=notes.append)
    assert notes[0].startswith("the dump was written at 1970-01-02 00:00:00Z (")
    assert " days ago)" in notes[0]


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (b"Writing refs to -\n{}", CorruptFileError, "the manifest .*given.json is damaged"),
        (b"{}", CorruptFileError, "branches_meta_range_id"),
        (None, MissingFileError, "given.json"),
    ],
)
def test_a_given_manifest_that_is_none(
    lake: Lake, folder: Path, body: bytes | None, error: type[Exception], words: str
) -> None:
    lake.create_repository("lake", str(folder / "ns")).dump_refs()
    given = folder / "given.json"
    if body is not None:
        given.write_bytes(body)
    with pytest.raises(error, match=words):
        memory_lake().restore_repository("lake", str(folder / "ns"), manifest=str(given))
