"""Dumps between sparklake and lakeFS: warnings, problems, renames, rules, and who wrote last."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from unittest import mock

import pytest

from sparklake import Lake, Repository
from sparklake.cli.parsing import renames
from sparklake.documents import dump_document
from sparklake.errors import InvalidDumpError, InvalidInputError, MissingFileError, NewerDumpError
from sparklake.graveler.commits import STRATEGY_METADATA_KEY, first_commit, new_commit
from sparklake.graveler.dumps.dump import encode_refs, manifest_bytes, read_dump_manifest, read_refs
from sparklake.graveler.dumps.lakefs_rules import find_lakefs_rules
from sparklake.graveler.entries import AddressType, Entry
from sparklake.graveler.guards import Action, ProtectionRule
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.messages import ProtectionRulesMessage, RetentionRulesMessage
from sparklake.graveler.ports import BranchState, RefsSnapshot, TagInfo
from sparklake.graveler.retention import BranchRetention, Retention
from sparklake.layout import (
    DUMP_SETTINGS_KEY,
    PROTECTION_RULES_KEY,
    REFS_MANIFEST_KEY,
    RETENTION_RULES_KEY,
)
from sparklake.stores.objects import open_store
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import commit_all, contents, memory_lake, namespace_of
from sparklake.verbs.dumps import dump as dumping
from tests.support.foreign import foreign_record, restored_tree
from tests.support.lakes import refused

GOLDEN = Path(__file__).parents[2] / "golden"
FIRST = first_commit(1)
SECOND = new_commit(
    parents=[FIRST],
    committer="ann",
    message="second",
    creation_date=2,
    meta_range_id=MetaRangeId(""),
)


@pytest.fixture
def lake() -> Lake:
    return memory_lake()


@pytest.fixture
def golden() -> Iterator[Path]:
    """Copy the storage namespace that lakeFS wrote, with its dump."""
    with memory_folder() as made:
        for part in ("namespace", "dump"):
            shutil.copytree(GOLDEN / part, made / "ns", dirs_exist_ok=True)
        yield made / "ns"


def write_dump(folder: Path, refs: RefsSnapshot) -> None:
    """Write a dump as another program would: without settings."""
    store = open_store(str(folder))
    manifest, files = encode_refs(refs)
    store.put_many_if_absent(files)
    store.replace(REFS_MANIFEST_KEY, manifest_bytes(manifest))


def refs_of(branches: Sequence[str], tags: Sequence[str] = ()) -> RefsSnapshot:
    return RefsSnapshot(
        tuple(BranchState(name, SECOND.id) for name in sorted(branches)),
        tuple(TagInfo(name, FIRST.id) for name in sorted(tags)),
        (FIRST, SECOND),
    )


def write_retention(folder: Path, default: int, branches: dict[str, int]) -> None:
    message = RetentionRulesMessage(default_retention_days=default)
    for name, days in branches.items():
        message.branch_retention_days.add(key=name, value=days)
    open_store(str(folder)).replace(RETENTION_RULES_KEY, message.SerializeToString())


def write_protection(folder: Path, rules: dict[str, list[int]]) -> None:
    message = ProtectionRulesMessage()
    for pattern, actions in rules.items():
        pair = message.branch_pattern_to_blocked_actions.add(key=pattern)
        pair.value.value.extend(actions)
    open_store(str(folder)).replace(PROTECTION_RULES_KEY, message.SerializeToString())


# --- warnings of a dump ---------------------------------------------------------------------------


def test_a_dump_warns_about_names(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("lake", str(folder / "ns"))
    for name in ("dev", "dev:joe", "a.b", "_-x"):
        repo.create_branch(name, "main")
    for name in ("v1.0+x=y", "v:1"):
        repo.create_tag(name, "main")
    branches, tags = repo.dump_refs().warnings
    assert "the names of some branches" in branches
    assert ": a.b, dev:joe." in branches
    assert ": v:1." in tags


def test_all_refused_names_are_in_the_result(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("lake", str(folder / "ns"))
    names = [f"dev.{number:02}" for number in range(15)]
    tags = [f"v:{number:02}" for number in range(15)]
    for branch, tag in zip(names, tags, strict=True):
        repo.create_branch(branch, "main")
        repo.create_tag(tag, "main")
    made = repo.dump_refs()
    assert all("and 5 more (--output json). To" in each for each in made.warnings)
    document = dump_document(made)
    assert [*document["refused_branches"]] == names
    assert [*document["refused_tags"]] == tags


def test_a_dump_warns_about_addresses(lake: Lake, folder: Path) -> None:
    (folder / "file").write_bytes(b"1")

    def entry(address: str, kind: AddressType = AddressType.FULL) -> Entry:
        return Entry(address, 1, md5(b"1").hexdigest(), 10**9, address_type=kind)

    entries = {
        "a": entry("s3://bucket/a%20b"),
        "b": entry("local:///x/y"),
        "c": entry(f"file://{folder}/file"),
        "d": entry("s3a://bucket/d"),
        "e": entry("s3://bucket/100%"),
        "f": entry("local:///x/../y"),
        "g": entry("data/x", AddressType.RELATIVE),
    }
    records = [foreign_record(path, each) for path, each in entries.items()]
    repo = restored_tree(lake, folder / "ns", records, cuts=[2, 5])
    (warning,) = repo.dump_refs().warnings
    assert "the addresses of 4 objects" in warning
    assert f"the first is 'c' at file://{folder}/file" in warning
    assert repo.dump_refs(check_addresses=False).warnings == ()
    for path in "cdef":
        repo.branch("main").delete(path)
    repo.branch("main").commit("removed")
    assert repo.dump_refs().warnings == ()


def test_what_this_package_writes_needs_no_warning(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("lake", str(folder / "ns"), range_records=2)
    main = repo.branch("main")
    (folder / "source").mkdir()
    for number in range(5):
        (folder / "source" / str(number)).write_bytes(b"1")
    commit_all(main, {"put": b"1"}, "put")
    main.import_objects(str(folder / "source"), "in")
    assert repo.dump_refs().warnings == ()


# --- problems of a restore ------------------------------------------------------------------------


def test_all_problems_are_named_at_once(lake: Lake, folder: Path) -> None:
    refs = refs_of(["main", "a/b", "c d"], ["~x", "v1", "no-commit"])
    missing = replace(SECOND, message="other")
    tree = new_commit(
        parents=[FIRST],
        committer="ann",
        message="tree",
        creation_date=3,
        meta_range_id=MetaRangeId("a" * 64),
    )
    tags = [replace(each) for each in refs.tags if each.name != "no-commit"]
    tags.append(TagInfo("no-commit", CommitId("b" * 64)))
    broken = RefsSnapshot(
        refs.branches,
        tuple(sorted(tags, key=lambda each: each.name)),
        (*refs.commits, replace(missing, id=CommitId("c" * 64)), tree),
    )
    write_dump(folder / "ns", broken)
    with refused(lake, InvalidDumpError, r"8 problems: \(1\)", folder) as raised:
        lake.restore_repository("lake", str(folder / "ns"), "trunk", rename={"nothing": "else"})
    for words in (
        f"the content of commit {'c' * 64} in the dump does not match",
        "'a/b' cannot be the name of a branch",
        "'c d' cannot be the name of a branch",
        "'~x' cannot be the name of a tag",
        "no branch or tag 'nothing' to rename",
        f"'no-commit' in the dump names the commit {'b' * 64}, which is missing",
        f"lacks _lakefs/{'a' * 64}",
        "no branch 'trunk'",
    ):
        assert words in str(raised.value)


def test_all_missing_tables_are_named(lake: Lake, golden: Path) -> None:
    repo_heads = read_refs(open_store(str(golden)), read_dump_manifest(open_store(str(golden))))
    trees = sorted({each.meta_range_id for each in repo_heads.commits if each.meta_range_id})
    for each in trees[:3]:
        (golden / "_lakefs" / each).unlink()
    with refused(lake, MissingFileError, "3 problems", golden) as raised:
        lake.restore_repository("golden", str(golden))
    assert all(each in str(raised.value) for each in trees[:3])


def test_names_are_changed(lake: Lake, folder: Path) -> None:
    write_dump(folder / "ns", refs_of(["main", "x y", "both"], ["~x", "both", "keep"]))
    rename = {"main": "trunk", "x y": "x-y", "~x": "x", "tags/both": "both-tag"}
    repo = lake.restore_repository("lake", str(folder / "ns"), rename=rename)
    assert [each.name for each in repo.branch_states()] == ["both", "trunk", "x-y"]
    assert [each.name for each in repo.tags()] == ["both-tag", "keep", "x"]
    assert repo.info.default_branch == "trunk"


def test_changed_names_are_checked(lake: Lake, folder: Path) -> None:
    write_dump(folder / "ns", refs_of(["main", "dev"], ["v1"]))
    for error, words, rename in (
        (InvalidDumpError, "'a/b' cannot be the name", {"dev": "a/b"}),
        (InvalidDumpError, "2 branches and tags would have the name 'main'", {"dev": "main"}),
        (InvalidDumpError, "would have the name 'dev'", {"v1": "dev"}),
        (InvalidInputError, "no branch or tag 'heads/v1'", {"heads/v1": "x"}),
    ):
        with refused(lake, error, words, folder):
            lake.restore_repository("lake", str(folder / "ns"), rename=rename)


# --- rules of lakeFS ------------------------------------------------------------------------------


def test_rules_in_the_namespace_are_taken_over(lake: Lake, golden: Path) -> None:
    write_retention(golden, 21, {"main": 28, "dst": 7})
    write_protection(golden, {"main": [0, 1], "release-*": [1], "wip?": [0], "[ab]*": [0]})
    notes: list[str] = []
    repo = lake.restore_repository(
        "golden", str(golden), rename={"dst": "dest"}, on_note=notes.append
    )
    settings = repo._context.refs.settings.get()
    assert settings.retention == Retention(
        21, (BranchRetention("dest", 7), BranchRetention("main", 28))
    )
    assert settings.protection == (
        ProtectionRule("main", frozenset([Action.STAGE, Action.COMMIT, Action.RESET])),
        ProtectionRule("release-*", frozenset([Action.COMMIT, Action.RESET])),
        ProtectionRule("wip?", frozenset([Action.STAGE, Action.RESET])),
    )
    (note,) = [each for each in notes if "[ab]" in each]
    assert "was not adopted" in note
    assert any(RETENTION_RULES_KEY in each for each in notes)


def test_the_last_rule_of_a_repeated_branch_counts(folder: Path) -> None:
    retention = RetentionRulesMessage(default_retention_days=21)
    protection = ProtectionRulesMessage()
    for number in (1, 0):
        retention.branch_retention_days.add(key="main", value=number)
        pair = protection.branch_pattern_to_blocked_actions.add(key="main")
        pair.value.value.append(number)
    store = open_store(str(folder))
    store.replace(RETENTION_RULES_KEY, retention.SerializeToString())
    store.replace(PROTECTION_RULES_KEY, protection.SerializeToString())
    rules = find_lakefs_rules(store, str)
    assert rules.retention == Retention(21, (BranchRetention("main", 0),))
    assert rules.protection == (ProtectionRule("main", frozenset([Action.STAGE, Action.RESET])),)
    assert rules.notes == []


def test_what_is_not_carried_over_is_named(lake: Lake, golden: Path) -> None:
    (golden / "_lakefs" / "settings").mkdir()
    (golden / PROTECTION_RULES_KEY).write_bytes(b"\xff")
    write_retention(golden, -1, {})
    notes: list[str] = []
    repo = lake.restore_repository("golden", str(golden), on_note=notes.append)
    text = "\n".join(notes)
    for words in (
        "uncommitted changes",
        "pull requests",
        "branch-protection rules in its database",
        f"{PROTECTION_RULES_KEY} are not in lakeFS's format",
        "garbage-collection rules were not adopted: a retention of -1 days",
    ):
        assert words in text
    settings = repo._context.refs.settings.get()
    assert (settings.retention, settings.protection) == (None, ())


# --- who wrote last -------------------------------------------------------------------------------


def dump_by_lakefs(repo: Repository, folder: Path, name: str = "by-lakefs") -> None:
    """Replace the manifest as lakeFS would, which has another tag."""
    refs = repo._context.refs.snapshot()
    bare = tuple(BranchState(each.name, each.commit_id) for each in refs.branches)
    tags = (*refs.tags, TagInfo(name, bare[0].commit_id))
    write_dump(folder, replace(refs, branches=bare, tags=tags))


def test_a_newer_dump_of_lakefs_is_not_overwritten(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("lake", str(folder / "ns"))
    commit_all(repo.branch("main"), {"a": b"1"}, "first")
    repo.dump_refs()
    dump_by_lakefs(repo, folder / "ns")
    before = (folder / "ns" / REFS_MANIFEST_KEY).read_bytes()
    with refused(lake, NewerDumpError, "--overwrite", folder / "ns" / "_lakefs"):
        repo.dump_refs()
    assert (folder / "ns" / REFS_MANIFEST_KEY).read_bytes() == before
    repo.dump_refs(overwrite=True)
    assert repo.dump_refs().branches == 1


def test_a_dump_that_comes_in_between_is_not_overwritten(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("lake", str(folder / "ns"))
    repo.dump_refs()
    commit_all(repo.branch("main"), {"a": b"1"}, "first")
    read = dumping.read_refs

    def overtaken(*arguments: object) -> RefsSnapshot:
        dump_by_lakefs(repo, folder / "ns")
        return read(*arguments)  # type: ignore[arg-type]

    with mock.patch.object(dumping, "read_refs", overtaken), pytest.raises(NewerDumpError):
        repo.dump_refs()
    store = open_store(str(folder / "ns"))
    theirs = read_refs(store, read_dump_manifest(store))
    assert [each.name for each in theirs.tags] == ["by-lakefs"]


def test_the_dump_that_was_restored_may_be_replaced(lake: Lake, golden: Path) -> None:
    repo = lake.restore_repository("golden", str(golden))
    repo.delete_tag("v1")
    repo.dump_refs()
    repo.dump_refs()


def test_a_repository_of_an_earlier_version_replaces_what_it_knows(
    lake: Lake, golden: Path, folder: Path
) -> None:
    by_lakefs = (golden / REFS_MANIFEST_KEY).read_bytes()
    repo = lake.restore_repository("golden", str(golden))
    (golden / DUMP_SETTINGS_KEY).unlink()
    commit_all(repo.branch("main"), {"new": b"1"}, "new")
    repo.dump_refs()
    other = lake.create_repository("other", str(folder / "other"))
    (golden / "_lakefs" / "dummy").unlink()
    shutil.copytree(golden / "_lakefs", folder / "other" / "_lakefs", dirs_exist_ok=True)
    (folder / "other" / DUMP_SETTINGS_KEY).unlink()
    (folder / "other" / REFS_MANIFEST_KEY).write_bytes(by_lakefs)
    with pytest.raises(NewerDumpError):
        other.dump_refs()


def test_a_dump_that_died_before_its_manifest_may_be_repeated(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("lake", str(folder / "ns"), "trunk", range_records=7)
    repo.dump_refs()
    commit_all(repo.branch("trunk"), {"a": b"1"}, "first")
    before = (folder / "ns" / REFS_MANIFEST_KEY).read_bytes()
    repo.dump_refs()
    (folder / "ns" / REFS_MANIFEST_KEY).write_bytes(before)
    shutil.copytree(folder / "ns", folder / "copy")
    (folder / "copy" / "_lakefs" / "dummy").unlink()
    restored = memory_lake().restore_repository("lake", str(folder / "copy"))
    assert (restored.info.default_branch, restored.info.range_records) == ("trunk", 7)
    repo.dump_refs()


def test_settings_of_an_older_dump_are_not_applied(lake: Lake, folder: Path) -> None:
    repo = lake.create_repository("lake", str(folder / "ns"), "main", range_records=7)
    repo.settings.protect("main")
    repo.create_branch("trunk", "main")
    repo.dump_refs()
    dump_by_lakefs(repo, folder / "ns")
    notes: list[str] = []
    restored = memory_lake().restore_repository("again", str(folder / "ns"), on_note=notes.append)
    assert restored.info.range_records != 7
    assert restored._context.refs.settings.get().protection == ()
    assert any("belong to an older dump" in each for each in notes)


@pytest.mark.parametrize("by_lakefs", [False, True])
def test_settings_of_an_earlier_version_belong_to_its_own_dumps(
    lake: Lake, folder: Path, by_lakefs: bool
) -> None:
    repo = lake.create_repository("lake", str(folder / "ns"), "main", range_records=7)
    repo.dump_refs()
    file = folder / "ns" / DUMP_SETTINGS_KEY
    kept = json.loads(file.read_text())
    del kept["manifests"]
    file.write_text(json.dumps(kept))
    if by_lakefs:
        shutil.copytree(GOLDEN / "namespace", folder / "ns", dirs_exist_ok=True)
        shutil.copytree(GOLDEN / "dump", folder / "ns", dirs_exist_ok=True)
    restored = memory_lake().restore_repository("again", str(folder / "ns"))
    assert (restored.info.range_records == 7) is not by_lakefs


def test_a_repository_goes_back_and_forth(lake: Lake, golden: Path) -> None:
    """LakeFS dumps, sparklake commits and dumps, and another lake restores it."""
    repo = lake.restore_repository("golden", str(golden))
    head = commit_all(repo.branch("main"), {"new": b"1"}, "new")
    repo.dump_refs()
    other = memory_lake().restore_repository("other", str(namespace_of(repo)))
    assert other.resolve("main").id == head.id
    assert contents(other, "main") == contents(repo, "main")


# --- names and their rules ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a" * 64, "b" * 300])
@pytest.mark.parametrize("days", [7, 40, None])
def test_rules_of_a_branch_whose_name_is_none_here(
    lake: Lake, folder: Path, name: str, days: int | None
) -> None:
    write_dump(folder / "ns", refs_of([name, "main"]))
    write_retention(folder / "ns", 21, {} if days is None else {name: days})
    repo = lake.restore_repository("lake", str(folder / "ns"), rename={name: "renamed"})
    retention = repo._context.refs.settings.get().retention
    assert retention is not None
    assert retention.days("renamed") == (days or 21)


@pytest.mark.parametrize("name", ["~old", "it's", "a\u200bb", "\u202e\\é'", "a\u00a0=b", "x\x7f~"])
def test_a_hint_to_rename_can_be_pasted(lake: Lake, folder: Path, name: str) -> None:
    write_dump(folder / "ns", refs_of(["main"], [name]))
    with pytest.raises(InvalidDumpError) as raised:
        lake.restore_repository("lake", str(folder / "ns"))
    hint = re.fullmatch(r"(?s).*, with --rename (.*)=NEW", str(raised.value))
    assert hint is not None
    assert hint[1].isprintable()
    command = ["bash", "-c", f"printf %s {hint[1]}=new"]
    pasted = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    repo = lake.restore_repository("lake", str(folder / "ns"), rename=renames([pasted]))
    assert [each.name for each in repo.tags()] == ["new"]


# --- squash merges --------------------------------------------------------------------------------


def test_a_squash_merge_of_lakefs(lake: Lake, folder: Path) -> None:
    """The source of a squash merge counts for the generation there, but it is no parent."""
    squashed = replace(
        new_commit(
            parents=[FIRST],
            committer="ann",
            message="squashed",
            creation_date=9,
            meta_range_id=MetaRangeId(""),
            metadata={STRATEGY_METADATA_KEY: "default"},
        ),
        generation=12,
    )
    above = new_commit(
        parents=[squashed],
        committer="ann",
        message="above",
        creation_date=10,
        meta_range_id=MetaRangeId(""),
    )
    branches = BranchState("dev", SECOND.id), BranchState("main", above.id)
    refs = RefsSnapshot(branches, (), (FIRST, SECOND, squashed, above))
    write_dump(folder / "ns", refs)
    repo = lake.restore_repository("lake", str(folder / "ns"))
    assert [each.generation for each in repo.log("main")] == [13, 12, 1]
    assert repo.merge_base("dev", "main") == FIRST
    assert repo.branch("main").status("dev").ahead == 2
    assert repo.check().is_healthy
    assert repo.dump_refs().manifest == encode_refs(refs)[0]
    commit = commit_all(repo.branch("dev"), {"a": b"1"}, "a")
    assert repo.merge("dev", "main").generation == 1 + max(above.generation, commit.generation)
    assert repo.check().is_healthy
