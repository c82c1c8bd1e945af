"""A check finds every injected fault of every class, and nothing on a healthy lake."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.faults.detection import CLASSES, campaign, reports
from campaigns.faults.lake_faults import FAULTS, Scene, healthy_scene, injected
from campaigns.faults.postgres_faults import POSTGRES_FAULTS, Database, injected_in_postgres
from campaigns.faults.rounds import Options
from sparklake import Lake
from sparklake.errors import CorruptFileError
from sparklake.graveler.retention import Retention, expired_commits
from sparklake.rows.findings import FindingKind
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake

SEED = int(os.environ.get("SPARKLAKE_SEED", "1"))
ROUNDS = 50
"""The injected faults of each class in the long test: more than 2,000 in all."""


@pytest.fixture(scope="module")
def scene(scratch: Path) -> Iterator[Scene]:
    with memory_folder() as folder:
        yield healthy_scene(memory_lake(), folder, seed=1)


def test_the_healthy_scene_has_no_faults(scene: Scene) -> None:
    report = scene.repo.check("content")
    assert report.faults == ()
    assert set(report.kinds) <= {FindingKind.TREE_FILE_UNREFERENCED, FindingKind.OBJECT_YOUNG}
    assert report.counts.purged == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_each_class_of_faults_is_found(scene: Scene, fault: str) -> None:
    with injected(scene, fault) as expected:
        report = scene.repo.check("content")
        assert reports(report, expected), (fault, expected, report.findings)


@pytest.fixture(scope="module")
def rows(lake: Lake, dsn: str) -> Iterator[tuple[Scene, Database]]:
    """Is a scene in Postgres, and its rows, which have been backed up."""
    with memory_folder() as folder:
        scene = healthy_scene(lake, folder, seed=1)
        database = Database(dsn, scene.repo)
        database.back_up()
        yield scene, database
        database.close()


@pytest.mark.system
@pytest.mark.parametrize("fault", POSTGRES_FAULTS)
def test_each_class_of_faults_in_postgres_is_found(
    rows: tuple[Scene, Database], fault: str
) -> None:
    scene, database = rows
    with injected_in_postgres(database, fault, random.Random(SEED)) as expected:
        report = scene.repo.check("content")
        assert reports(report, expected), (fault, expected, report.findings)
    assert scene.repo.check().faults == ()


@pytest.mark.parametrize("fault", ["lost_parent", "head_without_commit"])
def test_retention_names_a_missing_commit(rows: tuple[Scene, Database], fault: str) -> None:
    scene, database = rows
    with injected_in_postgres(database, fault, random.Random(SEED)):
        refs = scene.repo._context.refs.snapshot()
    with pytest.raises(CorruptFileError, match=r"is missing, so it is unknown.*`sparklake check`"):
        expired_commits(refs, Retention(7), 0)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_thousands_of_faults_are_found(server_dsn: str) -> None:
    figures = campaign(Options(ROUNDS, SEED), server_dsn)
    assert (figures.broken, figures.total) == ([], ROUNDS * len(CLASSES))


def test_an_undone_fault_is_not_reported(scene: Scene) -> None:
    before = scene.repo.check("content").kinds
    for fault in FAULTS:
        with injected(scene, fault):
            pass
    assert scene.repo.check("content").kinds == before


def test_every_kind_of_finding_has_a_class_of_faults(scene: Scene) -> None:
    seen: set[FindingKind] = set()
    for fault in FAULTS:
        with injected(scene, fault) as expected:
            seen |= expected.kinds if len(expected.kinds) == 1 else set()
    # These are faults of tables: tests/verbs/checks/test_harmed_tables.py.
    of_tables = {FindingKind.TABLE_LACKS_FILES, FindingKind.CHECKPOINT_UNREADABLE}
    assert seen == set(FindingKind) - of_tables


def test_the_page_of_proofs_has_the_number_of_classes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "proof.md").read_text(encoding="utf-8")
    assert f"injects faults of {len(CLASSES)} classes" in page
