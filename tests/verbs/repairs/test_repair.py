"""Repairs: what is lost comes back as it was, and nothing else changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from campaigns.faults.lake_faults import (
    FAULTS,
    Scene,
    changed_state,
    file_as,
    healthy_scene,
    injected,
)
from sparklake import Branch, Lake, Repository
from sparklake.errors import CollectionRunningError, CorruptFileError, ReadOnlyError
from sparklake.layout import REFS_MANIFEST_KEY, SWEEP_MARKER_KEY
from sparklake.rows.findings import KIND_FACTS, FindingKind, Severity
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import commit_all, contents, files_below, memory_lake, namespace_of
from sparklake.verbs.repairs.repair import RepairReport
from sparklake.verbs.repairs.steps import RepairAction
from tests.support.lakes import refs_of

FROM_INSIDE = {
    "missing_tree": RepairAction.REBUILD_TREE,
    "damaged_tree": RepairAction.REBUILD_TREE,
    "swapped_tree": RepairAction.REBUILD_TREE,
    "missing_range": RepairAction.REBUILD_RANGE,
    "damaged_range": RepairAction.REBUILD_RANGE,
    "swapped_range": RepairAction.REBUILD_RANGE,
    "wrong_entry": RepairAction.REBUILD_RANGE,
    "wrong_directory": RepairAction.REBUILD_RANGE,
    "truncated_description": RepairAction.REBUILD_TREE,
    "wrong_summary": RepairAction.FORGET_SUMMARY,
    "wrong_description": RepairAction.REBUILD_TREE,
    "overlap": RepairAction.REBUILD_TREE,
    "changed_commit": RepairAction.RESTORE_COMMITS,
    "wrong_generation": RepairAction.RESTORE_COMMITS,
    "missing_parent": RepairAction.RESTORE_COMMITS,
    "lost_commit": RepairAction.RESTORE_COMMITS,
    "lost_ref": RepairAction.RESTORE_REF,
    "no_default_branch": RepairAction.RESTORE_REF,
    "damaged_dump": RepairAction.WRITE_DUMP,
    "missing_dump_table": RepairAction.WRITE_DUMP,
    "damaged_dump_settings": RepairAction.WRITE_DUMP,
    "damaged_marker": RepairAction.FIX_MARKER,
}
"""The classes of faults that need no other copy, at least where records are in several trees."""

FROM_COPIES = {
    **dict.fromkeys(
        ("missing_tree", "damaged_tree", "missing_range", "damaged_range", "wrong_entry"),
        RepairAction.RESTORE_TREE_FILE,
    ),
    **dict.fromkeys(
        ("missing_object", "resized_object", "changed_object"), RepairAction.COPY_OBJECT
    ),
    **dict.fromkeys(("missing_import", "resized_import"), RepairAction.REPLACE_ADDRESS),
}
"""The classes of faults that a copy of the namespace and of the imported files repairs."""


@pytest.fixture
def scene(folder: Path) -> Scene:
    return healthy_scene(memory_lake(), folder, seed=7)


@pytest.fixture(scope="module")
def same_scene(scratch: Path) -> Iterator[Scene]:
    """Return a scene for tests that change nothing."""
    with memory_folder() as folder:
        yield healthy_scene(memory_lake(), folder, seed=7)


@pytest.fixture
def copies(scene: Scene, folder: Path) -> list[str]:
    """Copy the namespace and the imported files."""
    shutil.copytree(scene.root, folder / "copy")
    shutil.copytree(scene.outside, folder / "imported")
    return [str(folder / "copy"), str(folder / "imported")]


def actions(report: RepairReport) -> set[RepairAction]:
    return {each.step.action for each in report.results if each.is_done}


def everything(scene: Scene) -> dict[str, dict[str, bytes]]:
    return {ref: contents(scene.repo, ref) for ref in ("main", "dev", "bulk", "v1")}


@pytest.mark.parametrize("fault", FROM_INSIDE)
def test_faults_are_repaired_from_the_lake_itself(scene: Scene, fault: str) -> None:
    before = everything(scene)
    with injected(scene, fault):
        report = scene.repo.repair("content")
        if not report.check.is_healthy:
            # Some ranges have records that no other tree has.
            assert fault in ("missing_range", "damaged_range", "swapped_range", "wrong_entry")
            return
        assert FROM_INSIDE[fault] in actions(report)
        assert everything(scene) == before
        assert scene.repo.repair("content").results == ()


@pytest.mark.system
@pytest.mark.parametrize("fault", FROM_COPIES)
def test_faults_are_repaired_from_copies(scene: Scene, copies: list[str], fault: str) -> None:
    before = everything(scene)
    for _ in range(2):
        with injected(scene, fault):
            report = scene.repo.repair("content", sources=copies)
            assert report.check.is_healthy, report
            assert actions(report) == {FROM_COPIES[fault]}
            assert everything(scene) == before


def test_a_generation_of_a_parent_that_is_too_high(scene: Scene) -> None:
    """It is found at the child, whose own generation is right."""
    before, commits = everything(scene), scene.state.commits
    child = next(each for each in commits.values() if each.parents)
    parent = commits[child.parents[0]]
    too_high = {parent.id: replace(parent, generation=parent.generation + 100)}
    with changed_state(scene, commits={**commits, **too_high}):
        assert child.id in {each.subject for each in scene.repo.check("refs").findings}
        report = scene.repo.repair("refs")
        assert report.check.is_healthy
        assert everything(scene) == before


@pytest.mark.parametrize("fault", FAULTS)
def test_a_dry_run_changes_nothing(same_scene: Scene, fault: str) -> None:
    scene = replace(same_scene, rng=Random(7))
    with injected(scene, fault):
        before = refs_of(scene.repo), _files(scene)
        report = scene.repo.repair("content", dry_run=True)
        assert (refs_of(scene.repo), _files(scene)) == before
        assert not any(each.is_done for each in report.results)
        kinds = {kind for kind in report.check.kinds if _is_fault(kind)}
        assert {each.step.finding.kind for each in report.results} <= kinds
        assert bool(report.results) == bool(kinds)


def _is_fault(kind: FindingKind) -> bool:
    return KIND_FACTS[kind].severity is not Severity.LEFTOVER


def _files(scene: Scene) -> dict[str, tuple[int, int]]:
    found = files_below(scene.root)
    return {name: each for name, each in found.items() if not name.startswith("_sparklake/checks")}


@pytest.mark.system
@pytest.mark.parametrize("fault", FAULTS)
def test_a_repair_makes_nothing_worse(scene: Scene, fault: str) -> None:
    with injected(scene, fault):
        before = scene.repo.check("content").kinds
        after = scene.repo.repair("content").check.kinds
        assert {kind for kind in after if _is_fault(kind)} <= set(before)
        assert all(after[kind] <= before[kind] for kind in after if _is_fault(kind))


def test_an_equal_object_in_history_replaces_a_lost_one(repo: Repository, main: Branch) -> None:
    commit_all(main, {"a": b"the same", "b": b"the same", "c": b"another"}, "one")
    lost = Path(repo.stat("main", "b").address.removeprefix("file://"))
    lost.unlink()
    report = repo.repair()
    assert report.check.is_healthy
    (result,) = report.results
    assert result.step.action is RepairAction.COPY_OBJECT
    assert result.step.source == repo.stat("main", "a").address
    assert lost.read_bytes() == b"the same"


def test_an_equal_object_that_nothing_names_replaces_a_lost_one(
    repo: Repository, main: Branch
) -> None:
    """It may be that of a reset put, of a lost race, or of an interrupted collection."""
    for body in (b"the same", b"not same"):
        main.put("b", body)
    main.reset()
    commit_all(main, {"a": b"the same"}, "one")
    lost = Path(repo.stat("main", "a").address.removeprefix("file://"))
    lost.unlink()
    report = repo.repair()
    assert report.check.is_healthy
    (result,) = report.results
    assert result.step.action is RepairAction.COPY_OBJECT
    assert lost.read_bytes() == b"the same"


def test_a_lost_import_gets_a_copy_of_an_equal_object(
    any_lake: Lake, repo: Repository, main: Branch, folder: Path
) -> None:
    source = folder / "source"
    source.mkdir()
    (source / "x").write_bytes(b"the same")
    main.import_objects(str(source), "in/")
    commit_all(main, {"a": b"the same"}, "an equal one")
    head, tree = main.head, repo.resolve("main").meta_range_id
    (source / "x").unlink()
    elsewhere = any_lake.repository(repo.name)
    assert elsewhere.stat("main", "in/x").address != repo.stat("main", "a").address
    report = repo.repair()
    assert report.check.is_healthy
    assert {each.step.action for each in report.results} == {RepairAction.REPLACE_ADDRESS}
    address = repo.stat("main", "in/x").address
    assert address.startswith(f"{repo.info.storage_namespace}/data/repaired-")
    assert elsewhere.stat("main", "in/x").address == address
    assert repo.read_bytes("main", "in/x") == b"the same"
    assert elsewhere._context.refs.tree_sweeps == 1, "caches of tables start anew"
    assert (main.head, repo.resolve("main").meta_range_id) == (head, tree)
    assert not source.joinpath("x").exists()


def test_caches_start_anew_after_an_interrupted_repair(
    any_lake: Lake, repo: Repository, main: Branch
) -> None:
    commit_all(main, {"a": b"the same", "b": b"the same"}, "one")
    refs = any_lake.repository(repo.name)._context.refs

    def sweeps_after(report: RepairReport) -> int:
        assert report.check.is_healthy
        refs.branches.find("main")
        return refs.tree_sweeps

    damaged = Path(repo.stat("main", "b").address.removeprefix("file://"))
    damaged.unlink()
    damaged.write_bytes(b"damage.!")
    ended = repo.repair("content")
    assert sweeps_after(ended) == 0, "it has replaced no table"
    # A repair that is killed writes no record.
    Path(ended.location.removeprefix("file://"), "repair.json").unlink()
    assert sweeps_after(repo.repair()) == 1
    assert sweeps_after(repo.repair()) == 1


def test_replaced_files_are_kept(repo: Repository, main: Branch) -> None:
    commit_all(main, {"a": b"the same", "b": b"the same"}, "one")
    damaged = Path(repo.stat("main", "b").address.removeprefix("file://"))
    damaged.unlink()
    damaged.write_bytes(b"damage.!")
    report = repo.repair("content")
    assert report.check.is_healthy
    kept = Path(report.location.removeprefix("file://"))
    (copy,) = (kept / "replaced-0" / "data").iterdir()
    assert copy.read_bytes() == b"damage.!"
    assert (kept / "repair.json").exists()


def test_a_declined_step_is_not_done(repo: Repository, main: Branch) -> None:
    commit_all(main, {"a": b"the same", "b": b"the same"}, "one")
    lost = Path(repo.stat("main", "b").address.removeprefix("file://"))
    lost.unlink()
    asked: list[str] = []
    report = repo.repair(accept=lambda step: bool(asked.append(step.target)))
    assert asked == [f"file://{lost}"]
    assert [each.problem for each in report.results] == ["it was declined"]
    assert report.check.kinds == {FindingKind.OBJECT_MISSING: 1}


def test_a_wrong_copy_is_not_used(repo: Repository, main: Branch, folder: Path) -> None:
    commit_all(main, {"a": b"content"}, "one")
    lost = Path(repo.stat("main", "a").address.removeprefix("file://"))
    copy = folder / "copy" / "data" / lost.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"CONTENT")
    lost.unlink()
    report = repo.repair(sources=[str(folder / "copy")])
    assert [each.step.action for each in report.results] == [RepairAction.NOTHING]
    assert not lost.exists()


def test_a_namespace_of_another_repository_is_not_taken_back(scene: Scene) -> None:
    mark = scene.root / "_lakefs" / "dummy"
    with file_as(mark, mark.read_bytes().replace(b'"uid":"', b'"uid":"0')):
        report = scene.repo.repair("refs")
        assert [each.is_done for each in report.results] == [False]
    with file_as(mark, None):
        assert scene.repo.repair("refs").check.is_healthy


def test_a_repair_is_refused_where_nothing_may_change(repo: Repository) -> None:
    with repo._context.refs.collections.alone(), pytest.raises(CollectionRunningError):
        repo.repair("refs")
    repo.settings.set_read_only()
    with pytest.raises(ReadOnlyError):
        repo.repair("refs")
    assert repo.repair("refs", dry_run=True).results == ()


def test_all_is_repaired_in_one_run(scene: Scene, copies: list[str], folder: Path) -> None:
    """A range that is repaired shows objects that are lost, and they come back, too."""
    before = everything(scene)
    lost = [file for file, _ in scene.objects()]
    for each in lost:
        each.unlink()
    tables = [each for each in (scene.root / "_lakefs").iterdir() if len(each.name) == 64]
    for each in tables:
        each.write_bytes(b"damage")
    report = scene.repo.repair(sources=copies)
    assert report.check.is_healthy
    assert everything(scene) == before
    assert namespace_of(scene.repo) == scene.root


def test_a_damaged_marker_stops_writers_until_it_is_repaired(
    repo: Repository, main: Branch
) -> None:
    """Nobody knows what the collection may delete. The dump is repaired after the marker."""
    commit_all(main, {"a": b"content"}, "one")
    repo.dump_refs()
    store = repo._context.store
    store.replace(SWEEP_MARKER_KEY, b"")
    store.replace(REFS_MANIFEST_KEY, b"{")
    main.put("a", b"more")
    with pytest.raises(CorruptFileError, match="sparklake repair"):
        main.commit("two")
    assert repo.repair("refs").check.is_healthy
    assert store.find(SWEEP_MARKER_KEY) is None
    assert main.commit("two") == main.head
