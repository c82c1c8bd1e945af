"""A check finds every injected fault of every class, and nothing on a healthy lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparklake.udfs.checks.findings import FindingKind
from sparklake.verbs.checks.report import CheckReport
from tests.support.faults import FAULTS, Expected, Scene, healthy_scene, injected
from tests.support.lakes import memory_lake
from tests.support.memory_folders import memory_folder

ROUNDS = 50
"""The injected faults of each class in the long test: more than 2,000 in all."""


@pytest.fixture(scope="module")
def scene(scratch: Path) -> Iterator[Scene]:
    with memory_folder() as folder:
        yield healthy_scene(memory_lake(), folder, seed=1)


def found(report: CheckReport, expected: Expected) -> bool:
    return any(
        each.kind in expected.kinds
        and expected.subject in ("", each.subject, each.table)
        and expected.path in ("", each.first_path, each.last_path)
        for each in report.findings
    )


def check_one(scene: Scene, fault: str) -> None:
    with injected(scene, fault) as expected:
        report = scene.repo.check("content")
        assert found(report, expected), (fault, expected, report.findings)


def test_the_healthy_scene_has_no_faults(scene: Scene) -> None:
    report = scene.repo.check("content")
    assert report.faults == ()
    assert set(report.kinds) <= {FindingKind.TABLE_UNREFERENCED, FindingKind.OBJECT_YOUNG}
    assert report.counts.purged == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_each_class_of_faults_is_found(scene: Scene, fault: str) -> None:
    check_one(scene, fault)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_thousands_of_faults_are_found(scene: Scene, fault: str) -> None:
    assert ROUNDS * len(FAULTS) >= 2000
    for _ in range(ROUNDS):
        check_one(scene, fault)


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
    assert seen == set(FindingKind)
