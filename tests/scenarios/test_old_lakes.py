"""A lake that an older sparklake wrote opens, keeps its ids, and goes on working."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from campaigns.postgres import fresh_database
from sparklake import Lake
from sparklake.errors import NoChangesError
from sparklake.testing.lakes import contents, memory_lake, postgres_lake
from tests.golden.old_lake import make
from tests.golden.old_lake.make import NAMESPACE, OBJECTS, described

OLD = Path(make.__file__).parent


@pytest.fixture
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((OLD / "expected.json").read_text())
    return found


@pytest.fixture
def namespace(folder: Path) -> Path:
    # New times: half of the files are garbage, which a collection finds once it is old enough.
    copy = shutil.copytree(OLD / "namespace", folder / "namespace", copy_function=shutil.copy)
    return Path(copy)


@pytest.fixture
def old_lake(server_dsn: str, namespace: Path) -> Iterator[Lake]:
    """Open the lake with its refs in a Postgres, restored from the old dump of the database."""
    with fresh_database(server_dsn) as dsn:
        with psycopg.connect(dsn) as connection:
            dump = (OLD / "refs.sql").read_text().replace(NAMESPACE, namespace.as_uri())
            connection.execute(dump.encode())
        with postgres_lake(dsn) as lake:
            yield lake


def test_an_old_lake_shows_what_it_showed(old_lake: Lake, expected: dict[str, Any]) -> None:
    repo = old_lake.repository("lake")
    assert json.loads(json.dumps(described(repo))) == expected
    assert contents(repo, "v1") == {**OBJECTS, "labelled": b"x"}


def test_an_old_lake_is_healthy(old_lake: Lake) -> None:
    report = old_lake.repository("lake").check("content")
    assert (report.faults, report.counts.commits) == ((), 7)


def test_an_old_lake_goes_on(old_lake: Lake, expected: dict[str, Any]) -> None:
    repo = old_lake.repository("lake")
    main, topic = repo.branch("main"), repo.branch("topic")
    committed = topic.commit("Commit what the old version staged")
    assert committed.parents == (expected["refs"]["topic"]["commit"],)
    repo.merge("topic", "main")
    after = contents(repo, "main")
    assert after["new/b"] == b"staged"
    assert "data/001" not in after
    with pytest.raises(NoChangesError):
        repo.merge("dev", "main")
    main.hard_reset("v1")
    assert contents(repo, "main") == {**OBJECTS, "labelled": b"x"}
    main.put("data/000", b"again")
    assert main.commit("Go on").generation == 3
    assert repo.collect_garbage(dry_run=True).run.objects == 0


def test_the_same_objects_still_make_the_same_tree(expected: dict[str, Any], folder: Path) -> None:
    repo = memory_lake().create_repository("lake", str(folder / "new"), range_records=8)
    main = repo.branch("main")
    main.put_many(OBJECTS.items())
    main.put("labelled", b"x", {"owner": "ann", "ü": "é"})
    assert main.commit("Load data").meta_range_id == expected["refs"]["v1"]["tree"]


def test_an_old_dump_of_refs_is_restored(namespace: Path, expected: dict[str, Any]) -> None:
    repo = memory_lake().restore_repository("restored", namespace.as_uri())
    for ref, told in expected["refs"].items():
        assert repo.resolve(ref).id == told["commit"]
        assert [each.id for each in repo.log(ref)] == told["log"]
    assert contents(repo, "v1") == {**OBJECTS, "labelled": b"x"}
