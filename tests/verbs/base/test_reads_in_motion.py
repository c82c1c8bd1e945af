"""Readers of a branch that is committed under their eyes see all that was staged, or its commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sparklake import Branch, Repository
from sparklake.config import Engine
from sparklake.engine.choice import Runners
from sparklake.errors import ObjectNotFoundError
from sparklake.lake import Lake
from sparklake.testing.memory import MemoryRefStore
from sparklake.verbs.base.staging import StagedLayers


@pytest.fixture
def repo(tmp_path: Any) -> Repository:
    lake = Lake(MemoryRefStore(), Runners(Engine.LOCAL), "tester")
    return lake.create_repository("lake", str(tmp_path / "namespace"))


@pytest.fixture
def branch(repo: Repository) -> Branch:
    branch = repo.branch("main")
    branch.put("a", b"first")
    return branch


def once_before(function: Callable[..., Any], act: Callable[[], object]) -> Callable[..., Any]:
    """Return the function, which acts before its first call."""
    acted = False

    def call(*arguments: Any) -> Any:
        nonlocal acted
        if not acted:
            acted = True
            act()
        return function(*arguments)

    return call


def test_a_listing_misses_nothing(
    repo: Repository, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = once_before(StagedLayers.sides, lambda: branch.commit("meanwhile"))
    monkeypatch.setattr(StagedLayers, "sides", commits)
    assert [each.path for each in repo.objects("main")] == ["a"]


def test_a_stat_misses_nothing(
    repo: Repository, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = once_before(StagedLayers.sides, lambda: branch.commit("meanwhile"))
    monkeypatch.setattr(StagedLayers, "sides", commits)
    assert repo.stat("main", "a").size == 5


def test_a_staged_diff_is_of_one_moment(
    repo: Repository, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = once_before(StagedLayers.sides, lambda: branch.commit("meanwhile"))
    monkeypatch.setattr(StagedLayers, "sides", commits)
    assert list(repo.diff_uncommitted("main")) == []


def test_a_reset_under_a_reader_is_seen(
    repo: Repository, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StagedLayers, "sides", once_before(StagedLayers.sides, branch.reset))
    with pytest.raises(ObjectNotFoundError):
        repo.stat("main", "a")
