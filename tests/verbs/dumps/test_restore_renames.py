"""A restore records its renames beside the dump, and later restores of the dump use them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from sparklake import Repository
from sparklake.errors import InvalidInputError, StoreError
from sparklake.graveler.guards import Action, ProtectionRule
from sparklake.graveler.messages import ProtectionRulesMessage
from sparklake.graveler.retention import BranchRetention, Retention
from sparklake.layout import DUMP_SETTINGS_KEY, PROTECTION_RULES_KEY, REFS_MANIFEST_KEY
from sparklake.stores.objects import open_store
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import commit_all, files_below, memory_lake
from sparklake.testing.memory import MemoryRefStore
from sparklake.verbs.dumps.settings import read_settings, renames_of
from tests.support.lakes import refused

GOLDEN = Path(__file__).parents[2] / "golden"
MAIN = {"heads/main": "trunk"}


def dump_of_lakefs(folder: Path) -> None:
    """Copy a namespace of lakeFS with the branches dst, feature, main and src, and the tag v1."""
    for part in ("namespace", "dump"):
        shutil.copytree(GOLDEN / part, folder, dirs_exist_ok=True)


def dump_of_sparklake(folder: Path) -> None:
    """Dump a repository with the same names, and with rules."""
    repo = memory_lake().create_repository("lake", str(folder), range_records=7)
    commit_all(repo.branch("main"), {"a": b"1"}, "first")
    for name in ("dst", "feature", "src"):
        repo.create_branch(name, "main")
    repo.create_tag("v1", "main")
    repo.dump_refs()


dumps = pytest.mark.parametrize("dump", [dump_of_lakefs, dump_of_sparklake])
Dump = Callable[[Path], None]


@pytest.fixture
def place(folder: Path) -> Path:
    return folder / "ns"


def restored(place: Path, *, notes: list[str] | None = None, **options: Any) -> Repository:
    """Restore a dump to another lake."""
    told = [] if notes is None else notes
    return memory_lake().restore_repository("lake", str(place), on_note=told.append, **options)


def names(repo: Repository) -> tuple[list[str], list[str]]:
    return [each.name for each in repo.branch_states()], [each.name for each in repo.tags()]


def recorded(place: Path) -> dict[str, str]:
    kept = read_settings(open_store(str(place)))
    return kept.renames if kept else {}


# --- what is recorded -----------------------------------------------------------------------------


@dumps
@pytest.mark.parametrize(
    ("rename", "kept"),
    [
        ({"main": "trunk", "v1": "w1"}, {"heads/main": "trunk", "tags/v1": "w1"}),
        ({"heads/main": "trunk", "tags/v1": "w1"}, {"heads/main": "trunk", "tags/v1": "w1"}),
        ({"main": "src", "src": "main"}, {"heads/main": "src", "heads/src": "main"}),
        ({"main": "main"}, {}),
    ],
)
def test_renames_are_recorded_and_used_again(
    place: Path, dump: Dump, rename: dict[str, str], kept: dict[str, str]
) -> None:
    dump(place)
    first = restored(place, rename=rename)
    assert recorded(place) == kept
    notes: list[str] = []
    second = restored(place, notes=notes)
    assert names(second) == names(first)
    assert second._context.refs.snapshot() == first._context.refs.snapshot()
    assert second.info.default_branch == first.info.default_branch
    assert second.info.range_records == first.info.range_records
    told = [each for each in notes if "an earlier restore of this dump renamed" in each]
    assert len(told) == bool(kept)
    assert all(f"{old}={new}" in told[0] for old, new in kept.items())
    assert recorded(place) == kept


@dumps
def test_the_next_dump_has_the_new_names(place: Path, dump: Dump) -> None:
    dump(place)
    repo = restored(place, rename={"main": "trunk"})
    manifest = repo.dump_refs().manifest
    assert renames_of(read_settings(open_store(str(place))), manifest) == {}
    again = restored(place)
    assert names(again) == names(repo)
    assert again.info.default_branch == "trunk"


@dumps
def test_renamed_refs_are_not_lost(place: Path, dump: Dump) -> None:
    """Also if the next dump dies between its settings and its manifest."""
    dump(place)
    repo = restored(place, rename={"main": "trunk", "tags/v1": "good"})
    manifest = (place / REFS_MANIFEST_KEY).read_bytes()
    assert not refs_faults(repo)
    repo.collect_garbage(dry_run=True)
    repo.dump_refs()
    assert not refs_faults(repo)
    (place / REFS_MANIFEST_KEY).write_bytes(manifest)
    assert not refs_faults(repo)
    repo.dump_refs()
    (place / REFS_MANIFEST_KEY).write_bytes(manifest)
    again = restored(place)
    assert names(again) == names(repo)
    assert again.info.default_branch == "trunk"


def refs_faults(repo: Repository) -> set[str]:
    return {each.kind.value for each in repo.check("refs").faults}


def test_a_restore_without_renames_leaves_the_settings(place: Path) -> None:
    dump_of_sparklake(place)
    before = (place / DUMP_SETTINGS_KEY).read_bytes()
    restored(place, default_branch="dst", rename={"main": "main"})
    assert (place / DUMP_SETTINGS_KEY).read_bytes() == before


# --- other names in a second restore --------------------------------------------------------------


@dumps
@pytest.mark.parametrize(
    ("rename", "kept"),
    [
        ({"main": "top"}, {"heads/main": "top"}),
        ({"heads/main": "top"}, {"heads/main": "top"}),
        ({"main": "main"}, {}),
        ({"dst": "dest"}, {**MAIN, "heads/dst": "dest"}),
        ({"tags/v1": "w1"}, {**MAIN, "tags/v1": "w1"}),
    ],
)
def test_given_renames_have_precedence(
    place: Path, dump: Dump, rename: dict[str, str], kept: dict[str, str]
) -> None:
    dump(place)
    restored(place, rename={"main": "trunk"})
    notes: list[str] = []
    repo = restored(place, rename=rename, notes=notes)
    default = kept.get("heads/main", "main")
    assert repo.info.default_branch == default
    assert default in names(repo)[0]
    assert recorded(place) == kept
    assert any("heads/main=trunk" in each for each in notes) == (default == "trunk")


@dumps
def test_the_default_branch_of_a_second_restore(place: Path, dump: Dump) -> None:
    dump(place)
    lake = memory_lake()
    for rename, default, expected in (
        ({"main": "trunk"}, None, "trunk"),
        ({}, None, "trunk"),
        ({}, "dst", "dst"),
        ({"main": "top"}, None, "top"),
        ({"main": "top", "dst": "dest"}, "dest", "dest"),
        ({}, None, "top"),
        ({"main": "main", "dst": "dst"}, None, "main"),
        ({}, None, "main"),
    ):
        with refused(lake, InvalidInputError, "no branch 'nothing'", place):
            lake.restore_repository("x-x", str(place), "nothing", rename=rename)
        repo = restored(place, rename=rename, default_branch=default)
        assert repo.info.default_branch == expected


def test_the_default_branch_of_a_dump_of_lakefs_is_recorded_by_its_old_name(place: Path) -> None:
    dump_of_lakefs(place)
    restored(place, rename={"dst": "dest"}, default_branch="dest")
    kept = read_settings(open_store(str(place)))
    assert kept is not None
    assert kept.default_branch == "dst"
    assert restored(place).info.default_branch == "dest"
    assert restored(place, rename={"dst": "end"}).info.default_branch == "end"
    assert restored(place, default_branch="main").info.default_branch == "main"


# --- rules ----------------------------------------------------------------------------------------


def test_rules_of_a_renamed_branch_stay_with_it(place: Path) -> None:
    repo = memory_lake().create_repository("lake", str(place))
    repo.create_branch("dev", "main")
    repo.settings.protect("main", block=[Action.COMMIT])
    repo.settings.protect("trunk", block=[Action.STAGE])
    repo.settings.protect("de*")
    repo.settings.set_retention(9, {"main": 30, "trunk": 40, "*": 3})
    repo.dump_refs()
    first = restored(place, rename={"main": "trunk"})
    settings = first._context.refs.settings.get()
    assert settings.protection == (
        ProtectionRule("de*"),
        ProtectionRule("trunk", frozenset([Action.COMMIT, Action.STAGE])),
    )
    assert settings.retention == Retention(
        9, (BranchRetention("trunk", 40), BranchRetention("*", 3))
    )
    assert restored(place)._context.refs.settings.get() == settings
    back = restored(place, rename={"main": "main"})
    assert back._context.refs.settings.get() == repo._context.refs.settings.get()


def test_rules_of_lakefs_stay_with_a_branch_that_is_renamed_again(place: Path) -> None:
    dump_of_lakefs(place)
    message = ProtectionRulesMessage()
    message.branch_pattern_to_blocked_actions.add(key="main").value.value.extend([1])
    open_store(str(place)).replace(PROTECTION_RULES_KEY, message.SerializeToString())
    for rename, name in (({"main": "trunk"}, "trunk"), ({}, "trunk"), ({"main": "top"}, "top")):
        (rule,) = restored(place, rename=rename)._context.refs.settings.get().protection
        assert rule.pattern == name


# --- failures -------------------------------------------------------------------------------------


@dumps
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restore_that_fails_or_dies_leaves_the_dump_as_it_was(
    place: Path, dump: Dump, is_killed: bool
) -> None:
    """A process that is killed does not delete the repository that it has created."""
    dump(place)
    before = files_below(place)
    replace, delete = LocalStore.replace, MemoryRefStore.delete_repository

    def fail(store: LocalStore, key: str, body: bytes) -> None:
        if key == DUMP_SETTINGS_KEY:
            raise StoreError(f"{key} cannot be written")
        replace(store, key, body)

    def die(store: MemoryRefStore, name: str, **options: Any) -> None:
        if not is_killed:
            delete(store, name, **options)

    lake = memory_lake()
    with (
        mock.patch.object(LocalStore, "replace", fail),
        mock.patch.object(MemoryRefStore, "delete_repository", die),
        pytest.raises(StoreError, match=DUMP_SETTINGS_KEY),
    ):
        lake.restore_repository("lake", str(place), rename={"main": "trunk"})
    assert [each.name for each in lake.repositories()] == ["lake"] * is_killed
    changed = dict(files_below(place).items() - before.items())
    assert [each.rpartition("/")[2] for each in changed] == ["dummy"]
    for each in lake.repositories():  # No record has the renames, but nothing seems lost.
        killed = lake.repository(each.name)
        assert not refs_faults(killed)
        killed.collect_garbage(dry_run=True)
    repo = restored(place)
    assert names(repo) == (["dst", "feature", "main", "src"], ["v1"])
    assert repo.info.default_branch == "main"
