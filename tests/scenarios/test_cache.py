"""A lake in a bucket whose tables come from this machine's cache."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from sparklake import Engine, Lake, Repository
from sparklake.config import CacheSettings
from sparklake.engine import threads
from sparklake.engine.base import Body
from sparklake.engine.choice import Runners
from sparklake.graveler.ports import Content
from sparklake.stores.cache.cached_store import CachedStore
from sparklake.stores.cache.counts import TALLY
from sparklake.stores.objects import open_store
from sparklake.stores.objects.local.store import LocalStore
from sparklake.stores.objects.s3.store import S3Store
from sparklake.testing.lakes import TESTER, commit_all, contents
from sparklake.testing.memory import MemoryRefStore
from sparklake.testing.s3_server import fresh_bucket
from tests.support.lakes import paths

if TYPE_CHECKING:
    import pyarrow as pa

OBJECTS = {f"k/{number:03}": b"%d" % number for number in range(24)}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARKLAKE_CACHE", "SPARKLAKE_CACHE_BYTES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def namespace(s3_env: dict[str, str]) -> str:
    return f"s3://{fresh_bucket(s3_env)}/lake"


@pytest.fixture
def refs() -> MemoryRefStore:
    return MemoryRefStore()


def lake_of(refs: MemoryRefStore, folder: Path, max_bytes: int | None = None) -> Lake:
    settings = CacheSettings(str(folder), max_bytes)
    return Lake(refs, Runners(Engine.LOCAL), TESTER, cache=settings)


@contextmanager
def table_reads() -> Iterator[list[str]]:
    """Note which tables a bucket is asked for."""
    names: list[str] = []
    get_many = S3Store.get_many

    def noting(store: S3Store, keys: Sequence[str]) -> Iterator[Content]:
        names.extend(key for key in keys if key.startswith("_lakefs/"))
        return get_many(store, keys)

    with mock.patch.object(S3Store, "get_many", noting):
        yield names


def written(lake: Lake, namespace: str) -> Repository:
    """Make a repository of many ranges: main, and dev with one change."""
    repo = lake.create_repository("lake", namespace, range_records=4)
    commit_all(repo.branch("main"), dict(OBJECTS), "base")
    commit_all(repo.create_branch("dev", "main"), {"k/015": b"changed"}, "one change")
    return repo


def test_another_machine_reads_each_table_once(
    namespace: str, refs: MemoryRefStore, tmp_path: Path
) -> None:
    written(lake_of(refs, tmp_path / "writer"), namespace)
    for turn in range(2):
        # Opened anew, as a later process does.
        repo = lake_of(refs, tmp_path / "reader").repository("lake")
        with table_reads() as names:
            assert contents(repo, "main") == OBJECTS
            assert [each.path for each in repo.diff("main", "dev")] == ["k/015"]
        assert len(names) == len(set(names))
        assert bool(names) == (turn == 0)


def test_what_a_machine_has_written_it_does_not_read(
    namespace: str, refs: MemoryRefStore, tmp_path: Path
) -> None:
    with table_reads() as names:
        lake = lake_of(refs, tmp_path / "cache")
        written(lake, namespace)
        repo = lake_of(refs, tmp_path / "cache").repository("lake")
        assert repo.merge("dev", "main").parents
        assert contents(repo, "main") == {**OBJECTS, "k/015": b"changed"}
    assert names == []
    assert lake.cache is not None
    assert lake.cache.counts.misses == 0
    assert lake.cache.counts.hits > 0


def test_damage_on_this_machine_is_mended_from_the_bucket(
    namespace: str, refs: MemoryRefStore, tmp_path: Path
) -> None:
    written(lake_of(refs, tmp_path / "cache"), namespace)
    for path in (tmp_path / "cache").glob("*/*"):
        path.write_bytes(path.read_bytes()[:-10])
    repo = lake_of(refs, tmp_path / "cache").repository("lake")
    assert contents(repo, "main") == OBJECTS
    with table_reads() as names:
        assert paths(lake_of(refs, tmp_path / "cache").repository("lake"), "main") == [*OBJECTS]
    assert names == []


def test_a_small_cache_is_no_obstacle(namespace: str, refs: MemoryRefStore, tmp_path: Path) -> None:
    lake = lake_of(refs, tmp_path / "cache", 5000)
    repo = written(lake, namespace)
    assert isinstance(repo._context.store, CachedStore)
    assert contents(repo, "main") == OBJECTS
    assert [each.path for each in repo.diff("main", "dev")] == ["k/015"]
    assert lake.cache is not None
    assert 0 < lake.cache.usage().size <= 5000


def test_only_remote_stores_are_cached(refs: MemoryRefStore, tmp_path: Path) -> None:
    lake = lake_of(refs, tmp_path / "cache")
    repo = written(lake, str(tmp_path / "namespace"))
    assert isinstance(repo._context.store, LocalStore)
    assert contents(repo, "main") == OBJECTS
    assert lake.cache is not None
    assert lake.cache.usage().tree_files == 0


def test_no_bytes_are_no_cache(namespace: str, refs: MemoryRefStore, tmp_path: Path) -> None:
    lake = lake_of(refs, tmp_path / "cache", 0)
    repo = written(lake, namespace)
    assert isinstance(repo._context.store, S3Store)
    assert lake.cache is None
    assert not (tmp_path / "cache").exists()


def test_a_lake_says_what_its_cache_did(
    namespace: str, refs: MemoryRefStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "sparklake.cache"),
        lake_of(refs, tmp_path / "cache") as lake,
    ):
        contents(written(lake, namespace), "main")
    assert lake.cache is not None
    said = [each.getMessage() for each in caplog.records if each.name == "sparklake.cache"]
    assert said == [f"tables: {lake.cache.counts}"]


class ElsewhereRunner(threads.LocalRunner):
    """Runs bodies in another process, as an executor would."""

    def collect(self, body: Body, work: pa.Table) -> list[pa.RecordBatch]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(partial(_collected, body, work))


def _collected(body: Body, work: pa.Table) -> list[pa.RecordBatch]:
    return list(body(work.to_batches()))


@pytest.mark.system
def test_tasks_in_other_processes_report_what_their_cache_did(
    namespace: str, refs: MemoryRefStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = written(lake_of(refs, tmp_path / "writer"), namespace)
    base = repo._context.tree(repo.resolve("main"))
    lake = lake_of(refs, tmp_path / "reader")
    monkeypatch.setattr(threads, "LocalRunner", ElsewhereRunner)
    branch = lake.repository("lake").branch("dev")
    branch.put("k/001", b"changed")
    TALLY.begin()
    branch.commit("elsewhere")
    assert lake.cache is not None
    here, total = TALLY.report()[1], lake.cache.counts
    elsewhere = total.misses - here.misses
    assert len(base.ranges) > elsewhere >= 1


def test_a_place_that_is_used_again_has_no_cached_tables(
    namespace: str, refs: MemoryRefStore, tmp_path: Path
) -> None:
    """Equal contents make tables of equal ids, which name objects that are gone."""
    lake = lake_of(refs, tmp_path / "cache")
    commit_all(lake.create_repository("lake", namespace).branch("main"), dict(OBJECTS), "first")
    lake.delete_repository("lake")
    store = open_store(namespace)
    for each in list(store.list()):
        store.delete(each.key)
    again = lake.create_repository("lake", namespace)
    commit_all(again.branch("main"), dict(OBJECTS), "second")
    assert contents(again, "main") == OBJECTS
