"""Verbs one after the other, in any order, with hooks and rivals: each leaves what is right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from sparklake import Engine, Lake, Repository
from sparklake.config import HookSettings
from sparklake.engine.choice import Runners
from sparklake.stores.postgres import connect_ref_store
from sparklake.testing.lakes import TESTER
from sparklake.testing.memory import MemoryRefStore
from tests.support.interplay import BRANCHES, HOOKS, NOTE, Known, Steps

ALLOWED = HookSettings(allow=("python:tests.support.**",))
STEPS = 40

SUMMARY = "sparklake.graveler.planning.change_summary"


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.system)])
def arena(request: pytest.FixtureRequest) -> Iterator[Lake]:
    in_memory = request.param == "memory"
    store = MemoryRefStore() if in_memory else connect_ref_store(request.getfixturevalue("dsn"))
    with Lake(store, Runners(Engine.LOCAL), TESTER, hooks=ALLOWED) as lake:
        yield lake


@pytest.mark.parametrize(
    "seed",
    [
        0,
        pytest.param(1, marks=pytest.mark.system),
        *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 20)),
    ],
)
def test_verbs_leave_each_other_what_is_right(
    arena: Lake, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    # Small tasks and small summaries: what only large lakes meet otherwise.
    monkeypatch.setattr("sparklake.engine.threads.MAX_TASK_RECORDS", chance.choice([1, 5, 1000]))
    monkeypatch.setattr(f"{SUMMARY}.MOST_KEYS", chance.choice([1, 4, 1000]))
    monkeypatch.setattr(f"{SUMMARY}.MOST_INTERVALS", chance.choice([1, 2, 32]))
    repo = arena.create_repository(
        f"r-{uuid4().hex}", str(folder / "namespace"), range_records=chance.choice([1, 2, 4, 64])
    )
    main = repo.branch("main")
    main.put(HOOKS, NOTE)
    main.commit("hooks")
    for name in BRANCHES[1:]:
        repo.create_branch(name, "main")
    steps = Steps(repo, chance, Known(repo), a_source(folder / "source"))
    if seed % 2:
        steps.more = ("collect", "collect")
    steps.check_commits()
    for _ in range(STEPS):
        steps.take()
    assert steps.races
    assert steps.done["summary"] > steps.done["no summary"]
    check_history(repo, steps.model)


def a_source(folder: Path) -> Path:
    """Return a folder to import."""
    folder.mkdir()
    (folder / "x.csv").write_bytes(b"1\n")
    (folder / "i").write_bytes(b"2\n")
    return folder


def check_history(repo: Repository, known: Known) -> None:
    for name in BRANCHES:
        head = repo.resolve(name).id
        for path in ("a/x.csv", "y", "rival"):
            found = [each.id for each in repo.log(name, path=path)]
            assert found == known.log(head, path=path)
        for prefix in ("", "a/", "a/b", "c/"):
            found = [each.id for each in repo.log(name, prefix=prefix)]
            assert found == known.log(head, prefix)
        blamed = {row.path: row.commit.id for row in repo.blame(name)}
        assert blamed == known.blame(head, "")
