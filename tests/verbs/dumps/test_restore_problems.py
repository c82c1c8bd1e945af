"""A restore names everything that it cannot take at once, and reads each table once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Commit, Lake, Repository
from sparklake.errors import CorruptFileError, InvalidDumpError, InvalidInputError, MissingFileError
from sparklake.graveler.dumps import ref_files
from sparklake.graveler.ports import StoredObject
from sparklake.graveler.sstable.layout import ends_whole
from sparklake.layout import COLLECTED_KEY, DUMP_SETTINGS_KEY, REFS_MANIFEST_KEY
from sparklake.rows.findings import FindingKind
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import commit_all, contents, files_below, memory_lake
from tests.support.lakes import refused
from tests.support.recorded_reads import recorded_parts

GOLDEN = Path(__file__).parents[2] / "golden"


@dataclass(frozen=True)
class Dumped:
    """A dumped repository: ranges that only one commit has, and its folder."""

    repo: Repository
    folder: Path

    def tree(self, ref: str) -> str:
        return self.repo.resolve(ref).meta_range_id

    def ranges(self, ref: str) -> list[str]:
        tree = self.repo.resolve(ref).meta_range_id
        return [each.id for each in self.repo._context.trees.get(tree).ranges]

    def only_in(self, ref: str, *others: str) -> str:
        """Return a range that no other of some refs has."""
        known = {each for other in others for each in self.ranges(other)}
        return next(each for each in self.ranges(ref) if each not in known)

    def table(self, name: str) -> Path:
        return self.folder / "_lakefs" / name

    @property
    def manifest(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / REFS_MANIFEST_KEY).read_text())
        return found


@pytest.fixture
def dumped(small_lake: Lake, folder: Path) -> Dumped:
    """Dump three commits on main, with a branch at the second one and a tag at the third."""
    repo = small_lake.create_repository("lake", str(folder / "ns"), range_records=3)
    main = repo.branch("main")
    for number in range(3):
        commit_all(main, {f"k{at:02}": b"%d" % number for at in range(20)}, str(number))
        if number == 1:
            repo.create_branch("dev", "main")
    repo.create_tag("v1", "main")
    repo.dump_refs()
    return Dumped(repo, folder / "ns")


def cut(file: Path, *, by: int = 1) -> None:
    file.write_bytes(file.read_bytes()[:-by])


# --- everything at once ---------------------------------------------------------------------------


def test_problems_of_all_kinds_are_named_at_once(dumped: Dumped) -> None:
    past, dev, main = (f"main~{back}" for back in (2, 1, 0))
    gone = dumped.only_in(past, dev, main), dumped.only_in(main, past, dev)
    shortened = dumped.only_in(dev, past, main)
    for each in (*gone, dumped.manifest["tags_meta_range_id"]):
        dumped.table(each).unlink()
    cut(dumped.table(shortened), by=100)
    (dumped.folder / DUMP_SETTINGS_KEY).write_text("{")
    (dumped.folder / COLLECTED_KEY).parent.mkdir(parents=True, exist_ok=True)
    lake = memory_lake()
    with refused(lake, InvalidDumpError, "^9 problems: ", dumped.folder) as raised:
        lake.restore_repository(
            "lake", str(dumped.folder), "trunk", 0, {"dev": "main", "heads/none": "x"}
        )
    for words in (
        *(f"lacks _lakefs/{each}, which the commit" for each in gone),
        f"_lakefs/{shortened} in ",
        dumped.manifest["tags_meta_range_id"],
        DUMP_SETTINGS_KEY,
        "no branch 'trunk'",
        "range_records must be 1 to",
        "no branch or tag 'heads/none' to rename",
        "would have the name 'main'",
    ):
        assert words in str(raised.value)
    assert dumped.repo.resolve(past).id in str(raised.value)


def test_options_are_refused_together(dumped: Dumped) -> None:
    lake = memory_lake()
    with refused(lake, InvalidInputError, "^2 problems", dumped.folder) as several:
        lake.restore_repository("lake", str(dumped.folder), "trunk", 7)
    assert "no branch 'trunk'" in str(several.value)
    assert "range_records is 3 in this dump" in str(several.value)
    with refused(lake, InvalidDumpError, "^2 problems", dumped.folder) as mixed:
        lake.restore_repository("lake", str(dumped.folder), "a/b", 0)
    assert "'a/b' cannot be the name of a branch" in str(mixed.value)
    assert "range_records must be 1 to" in str(mixed.value)


def test_an_unreadable_table_hides_only_what_it_holds(dumped: Dumped) -> None:
    dumped.table(dumped.manifest["tags_meta_range_id"]).unlink()
    lake = memory_lake()
    with refused(lake, InvalidDumpError, "^2 problems", dumped.folder) as raised:
        lake.restore_repository(
            "lake", str(dumped.folder), rename={"heads/none": "x", "tags/v1": "v", "v1": "w"}
        )
    assert "'heads/none'" in str(raised.value)


def test_all_ranges_of_a_table_of_refs_are_named(small_lake: Lake, folder: Path) -> None:
    with mock.patch.object(ref_files, "_RANGE_BYTES", 1):
        repo = small_lake.create_repository("lake", str(folder / "ns"))
        for number in range(4):
            commit_all(repo.branch("main"), {"k": b"%d" % number}, str(number))
        repo.dump_refs()
    dumped = Dumped(repo, folder / "ns")
    store, entity = repo._context.store, ref_files.Entity.COMMIT
    root, *ranges = ref_files.ref_table_ids(store, dumped.manifest["commits_meta_range_id"], entity)
    found = dict(zip([each.id for each in sorted_commits(repo)], ranges, strict=True))
    gone = [found[repo.resolve(each).id] for each in ("main", "main~1")]
    for each in gone:
        dumped.table(each).unlink()
    # The trees of the other commits are looked for.
    tree = dumped.tree("main~2")
    dumped.table(tree).unlink()
    lake = memory_lake()
    with refused(lake, MissingFileError, "^3 problems", dumped.folder) as raised:
        lake.restore_repository("lake", str(dumped.folder))
    assert all(each in str(raised.value) for each in (*gone, tree))
    assert root not in str(raised.value)


def sorted_commits(repo: Repository) -> list[Commit]:
    return sorted(repo._context.refs.snapshot().commits, key=lambda each: each.id)


@pytest.mark.parametrize("rules", ['{"a/b": ["commit"]}', '{"main": []}'])
def test_damaged_settings_do_not_hide_a_missing_table(dumped: Dumped, rules: str) -> None:
    kept = json.loads((dumped.folder / DUMP_SETTINGS_KEY).read_text())
    kept["protection"] = json.loads(rules)
    (dumped.folder / DUMP_SETTINGS_KEY).write_text(json.dumps(kept))
    dumped.table(dumped.tree("main~1")).unlink()
    lake = memory_lake()
    with refused(
        lake, InvalidDumpError, f"^2 problems.*{DUMP_SETTINGS_KEY}", dumped.folder
    ) as raised:
        lake.restore_repository("lake", str(dumped.folder))
    assert dumped.tree("main~1") in str(raised.value)


def test_a_damaged_list_of_collected_trees_hides_only_what_it_may_list(dumped: Dumped) -> None:
    past, main = dumped.tree("main~2"), dumped.tree("main")
    for each in (past, main):
        dumped.table(each).unlink()
    (dumped.folder / COLLECTED_KEY).parent.mkdir(parents=True, exist_ok=True)
    (dumped.folder / COLLECTED_KEY).write_text("[")
    lake = memory_lake()
    with refused(lake, InvalidDumpError, f"^2 problems.*{COLLECTED_KEY}", dumped.folder) as raised:
        lake.restore_repository("lake", str(dumped.folder))
    assert main in str(raised.value)
    assert past not in str(raised.value)
    assert "were not verified" in str(raised.value)


# --- tables of trees ------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [0, 1, 2])
def test_a_missing_range_of_any_commit_is_named(dumped: Dumped, back: int) -> None:
    others = [f"main~{each}" for each in range(3) if each != back]
    gone = dumped.only_in(f"main~{back}", *others)
    aside = dumped.table(gone).rename(dumped.folder.parent / "aside")
    lake = memory_lake()
    commit = dumped.repo.resolve(f"main~{back}").id
    with refused(lake, MissingFileError, f"lacks _lakefs/{gone}.*{commit}", dumped.folder):
        lake.restore_repository("lake", str(dumped.folder))
    aside.rename(dumped.table(gone))
    lake.restore_repository("lake", str(dumped.folder))


@pytest.mark.parametrize("back", [0, 1, 2])
def test_a_damaged_metarange_of_any_commit_is_named(dumped: Dumped, back: int) -> None:
    tree = dumped.tree(f"main~{back}")
    cut(dumped.table(tree))
    lake = memory_lake()
    with refused(lake, CorruptFileError, tree, dumped.folder):
        lake.restore_repository("lake", str(dumped.folder))


def test_a_range_of_a_head_that_is_no_whole_file_is_named(dumped: Dumped) -> None:
    for ref in ("v1", "dev"):
        name = dumped.only_in(ref, *({"v1", "dev"} - {ref}), "main~2")
        body = dumped.table(name).read_bytes()
        for bad in (body[:-1], body[: len(body) // 2], b"", body[:40] + body[41:], body + b"\0"):
            dumped.table(name).write_bytes(bad)
            lake = memory_lake()
            with refused(lake, CorruptFileError, name, dumped.folder):
                lake.restore_repository("lake", str(dumped.folder))
        dumped.table(name).write_bytes(body)
    assert contents(memory_lake().restore_repository("lake", str(dumped.folder)), "dev")


def test_a_check_finds_what_a_restore_does_not_read(dumped: Dumped) -> None:
    name = dumped.only_in("main~2", "main~1", "main")
    cut(dumped.table(name))
    repo = memory_lake().restore_repository("lake", str(dumped.folder))
    (found,) = repo.check("trees").findings
    assert (found.kind, found.tree_file) == (FindingKind.RANGE_DAMAGED, name)


def test_what_is_there_can_be_restored(dumped: Dumped) -> None:
    """Trees may be incomplete if the user accepts it. All other problems still stop a restore."""
    gone = dumped.only_in("main~1", "main", "main~2")
    dumped.table(gone).unlink()
    cut(dumped.table(dumped.tree("main~2")))
    lake, notes = memory_lake(), list[str]()
    with refused(lake, InvalidDumpError, "^2 problems.*--incomplete", dumped.folder):
        lake.restore_repository("lake", str(dumped.folder))
    with refused(lake, InvalidInputError, "'nothing'", dumped.folder):
        lake.restore_repository(
            "lake", str(dumped.folder), incomplete=True, rename={"nothing": "x"}
        )
    repo = lake.restore_repository(
        "lake", str(dumped.folder), incomplete=True, on_note=notes.append
    )
    assert contents(repo, "main")
    assert gone in notes[-1]
    assert repo.check("trees").kinds == {FindingKind.RANGE_MISSING: 1, FindingKind.TREE_DAMAGED: 1}
    before = files_below(dumped.folder / "data")
    with pytest.raises((MissingFileError, CorruptFileError)):
        repo.collect_garbage(grace=timedelta())
    assert files_below(dumped.folder / "data") == before


def test_tables_of_lakefs_end_whole() -> None:
    tables = [
        each
        for part in ("namespace", "dump")
        for each in (GOLDEN / part / "_lakefs").iterdir()
        if len(each.name) == 64
    ]
    assert len(tables) > 20
    for each in tables:
        body = each.read_bytes()
        assert ends_whole(body)
        assert not any(map(ends_whole, (body[:-1], body[1:], body + body[-60:], b"")))


# --- what it costs --------------------------------------------------------------------------------


def test_each_table_is_read_once_and_the_namespace_is_listed_once(dumped: Dumped) -> None:
    dumped.repo.create_tag("v2", "v1")
    commit = dumped.repo.branch("dev").commit("same tree", allow_empty=True)
    assert commit.meta_range_id == dumped.tree("dev~1")
    dumped.repo.dump_refs()
    shutil.copytree(dumped.folder, dumped.folder.parent / "copy")
    listed: list[str] = []
    listing = LocalStore.list

    def noting(store: LocalStore, prefix: str = "") -> Iterator[StoredObject]:
        listed.append(prefix)
        return listing(store, prefix)

    with (
        recorded_reads() as reads,
        recorded_parts() as parts,
        mock.patch.object(LocalStore, "list", noting),
    ):
        memory_lake().restore_repository("lake", str(dumped.folder))
    trees = {each.meta_range_id for each in dumped.repo._context.refs.snapshot().commits} - {""}
    assert sorted(each for each in reads if each in trees) == sorted(trees)
    ranges = {each for ref in ("main", "dev", "v1") for each in dumped.ranges(ref)}
    assert not ranges.intersection(reads)
    # Also those of tables that the dump does not name, to see whether lakeFS wrote them.
    tables = [each for each in (dumped.folder / "_lakefs").iterdir() if len(each.name) == 64]
    assert len(ranges) < len(parts) <= len(tables)
    assert max(parts) <= 4096
    assert listed.count("_lakefs/") == 1
