"""Garbage collections: what they take and what they leave, alone and beside others."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest

from sparklake import Lake, Repository
from sparklake.errors import (
    CollectionRunningError,
    CollectionStartedError,
    InvalidInputError,
    NamespaceInUseError,
    NoChangesError,
    NotFoundError,
    RaceLostError,
    ReadOnlyError,
)
from sparklake.layout import SWEEP_MARKER_KEY
from sparklake.namespace.markers import is_sweep_open
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import commit_all, contents, namespace_of, stage_table
from sparklake.verbs.gc import collect
from tests.support.interleaved_calls import just_before

pytestmark = pytest.mark.both_stores

NO_GRACE = timedelta()


def objects_of(repository: Repository) -> set[str]:
    """Return the addresses, in the namespace, of all objects that are there."""
    root = namespace_of(repository)
    return {str(each.relative_to(root)) for each in (root / "data").rglob("*") if each.is_file()}


@pytest.fixture
def repo(small_lake: Lake, tmp_path: Path) -> Repository:
    return small_lake.create_repository("repo", str(tmp_path / "ns"), range_records=2)


def test_what_nothing_names_goes(any_lake: Lake, tmp_path: Path) -> None:
    repo = any_lake.create_repository("repo", str(tmp_path / "ns"))
    main = repo.branch("main")
    commit_all(main, {"a": b"1", "b": b"2"}, "first")
    main.put("a", b"3")
    main.reset()
    main.put("c", b"4")
    main.put("c", b"5")
    before = objects_of(repo)
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE)
    assert objects_of(repo) == before
    assert (found.run.objects, found.run.bytes, found.run.objects_listed) == (2, 2, 5)
    assert found.run.young == 0
    done = repo.collect_garbage(grace=NO_GRACE)
    assert done.run.state == "swept"
    gone = before - objects_of(repo)
    assert (
        gone
        == {each.path for each in repo.garbage(done.run.id)}
        == {each.path for each in found.sample}
    )
    assert contents(repo, "main") == {"a": b"1", "b": b"2", "c": b"5"}
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 0


def test_what_is_young_is_spared(repo: Repository) -> None:
    main = repo.branch("main")
    main.put("a", b"1")
    main.reset()
    before = objects_of(repo)
    run = repo.collect_garbage(dry_run=True).run
    assert (run.objects, run.young) == (0, 1)
    assert repo.collect_garbage().run.objects == 0
    assert objects_of(repo) == before
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 1


def test_what_was_written_in_a_place_that_is_open_is_spared(repo: Repository) -> None:
    store = repo._context.store
    store.put_if_absent("data/open/part-0", b"1")
    store.put_if_absent("data/failed/part-0", b"2")
    with mock.patch.object(collect, "open_places", return_value=("data/open/",)):
        repo.collect_garbage(grace=NO_GRACE)
    assert objects_of(repo) == {"data/open/part-0"}


def test_an_earlier_list_is_swept_as_far_as_it_is_garbage_still(repo: Repository) -> None:
    main = repo.branch("main")
    store = repo._context.store
    for name in ("named", "unnamed"):
        store.put_if_absent(f"data/{name}", b"1")
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE).run
    assert found.objects == 2
    main.stage(stage_table([{"path": "a", "size": 1, "checksum": "c", "address": "data/named"}]))
    store.put_if_absent("data/later", b"1")
    assert repo.collect_garbage(sweep=found.id, grace=NO_GRACE).run.objects == 1
    assert objects_of(repo) == {"data/named", "data/later"}
    with pytest.raises(InvalidInputError, match="already swept"):
        repo.collect_garbage(sweep=found.id)


@pytest.mark.usefixtures("healthy_at_end")
def test_addresses_spelled_otherwise_are_names_too(repo: Repository) -> None:
    main, root = repo.branch("main"), namespace_of(repo)
    for name in ("one", "two", "three"):
        repo._context.store.put_if_absent(f"data/{name}", b"1")
    link = root.parent / "link"
    link.symlink_to(root)
    addresses = [f"file://{root}/data/one", f"file://{link}/data/two"]
    rows = [
        {"path": f"p{number}", "size": 1, "checksum": "c", "address": address}
        for number, address in enumerate(addresses)
    ]
    main.stage(stage_table(rows))
    repo.collect_garbage(grace=NO_GRACE)
    assert objects_of(repo) == {"data/one", "data/two"}


def test_lower_layers_and_every_commit_count(repo: Repository) -> None:
    main = repo.branch("main")
    commit_all(main, {"a": b"1", "b": b"2"}, "first")
    commit_all(main, {"a": b"3", "b": None}, "second")
    repo.create_branch("dev", "main").put("a", b"4")
    repo.branch("dev").stage(
        stage_table([{"path": "a", "size": 1, "checksum": "c", "address": "data/nowhere"}])
    )
    repo.delete_tag(repo.create_tag("t", "main").name)
    before = objects_of(repo)
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 0
    assert objects_of(repo) == before
    repo.delete_branch("dev", discard_staged=True)
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 1


def test_a_put_that_a_collection_overtakes_is_made_again(repo: Repository) -> None:
    main = repo.branch("main")
    other = repo.collect_garbage

    staging = type(repo._context.refs.staging)
    with just_before(staging, "put", lambda: other(grace=NO_GRACE)):
        main.put("a", b"1")
    assert contents(repo, "main") == {"a": b"1"}
    # The first attempt's object is garbage that this collection did not know of, or it is gone.
    repo.collect_garbage(grace=NO_GRACE)
    assert len(objects_of(repo)) == 1


def test_many_are_put_again_unless_they_come_but_once(repo: Repository) -> None:
    main, bodies = repo.branch("main"), {"a": b"1", "b": b"2"}
    staging = type(repo._context.refs.staging)

    def overtaken() -> AbstractContextManager[None]:
        return just_before(staging, "put", lambda: repo.collect_garbage(grace=NO_GRACE))

    with overtaken():
        assert main.put_many(bodies) == 2
    assert contents(repo, "main") == bodies
    with overtaken():
        assert main.copy_many([("a", "c")]) == 1
    with overtaken(), pytest.raises(CollectionStartedError):
        main.put_many((each, b"3") for each in "def")
    assert contents(repo, "main") == {**bodies, "c": b"1"}


def test_what_a_range_names_that_is_gone_is_not_put_back(repo: Repository) -> None:
    """A range that nothing names stays when its objects go. Equal records get the next id."""
    main = repo.branch("main")
    main.put("a", b"1")
    (gone,) = objects_of(repo)
    branches = type(repo._context.refs.branches)
    with just_before(branches, "move", main.reset), pytest.raises(RaceLostError):
        main.commit("in vain")
    repo.collect_garbage(grace=NO_GRACE)
    assert objects_of(repo) == set()
    commit_all(main, {"a": b"1"}, "equal")
    assert contents(repo, "main") == {"a": b"1"}
    repo.collect_garbage(grace=NO_GRACE)
    assert len(objects_of(repo) - {gone}) == 1
    assert contents(repo, "main") == {"a": b"1"}
    main.put("a", b"1")
    with pytest.raises(NoChangesError):
        main.commit("no change")


def test_rows_of_addresses_wait_while_objects_are_taken(repo: Repository, tmp_path: Path) -> None:
    main, store = repo.branch("main"), repo._context.store
    store.put_if_absent("data/mine", b"1")
    (tmp_path / "outside").write_bytes(b"2")
    row = {"path": "a", "size": 1, "checksum": "c"}

    def inside() -> None:
        outside = {**row, "path": "b", "address": f"file://{tmp_path}/outside"}
        main.stage(stage_table([outside]))
        for address in ("data/mine", f"{repo.info.storage_namespace}/data/mine"):
            with pytest.raises(CollectionRunningError, match="after `sparklake gc run` finishes"):
                main.stage(stage_table([{**row, "address": address}]))

    with just_before(LocalStore, "delete", inside):
        repo.collect_garbage(grace=NO_GRACE)
    assert objects_of(repo) == set()
    assert contents(repo, "main") == {"b": b"2"}


@pytest.mark.usefixtures("healthy_at_end")
def test_a_collection_that_was_interrupted_is_ended_first(repo: Repository) -> None:
    store = repo._context.store
    store.put_if_absent("data/one", b"1")
    with just_before(LocalStore, "delete", lambda: 1 / 0), pytest.raises(ZeroDivisionError):
        repo.collect_garbage(grace=NO_GRACE)
    assert objects_of(repo) == {"data/one"}
    assert is_sweep_open(store)
    # The grace is that of the run that had begun.
    assert repo.collect_garbage().run.objects == 0
    assert objects_of(repo) == set()
    assert not is_sweep_open(store)


def test_one_that_died_before_it_had_marked_takes_nothing(repo: Repository) -> None:
    store = repo._context.store
    store.put_if_absent("data/one", b"1")
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE).run
    row = {"path": "a", "size": 1, "checksum": "c", "address": "data/one"}
    repo.branch("main").stage(stage_table([row]))
    store.replace(SWEEP_MARKER_KEY, found.id.encode())
    repo.collect_garbage(grace=NO_GRACE)
    assert objects_of(repo) == {"data/one"}


def test_what_is_refused(small_lake: Lake, repo: Repository, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="grace period"):
        repo.collect_garbage(grace=timedelta(seconds=-1))
    with pytest.raises(InvalidInputError, match="dry run"):
        repo.collect_garbage(dry_run=True, sweep="x")
    with pytest.raises(InvalidInputError, match="is not the id"):
        repo.garbage("../../other")
    with pytest.raises(NotFoundError, match="no garbage collection"):
        repo.collect_garbage(sweep="20240101T000000Z-0")
    with repo._context.refs.collections.alone(), pytest.raises(CollectionRunningError):
        repo.collect_garbage()
    repo.settings.set_read_only()
    with pytest.raises(ReadOnlyError):
        repo.collect_garbage()
    assert repo.collect_garbage(dry_run=True).run.objects == 0
    assert small_lake.repository("repo", force=True).collect_garbage().run.objects == 0
    repo.settings.set_read_only(False)
    repo.dump_refs()
    small_lake.delete_repository("repo")
    small_lake.restore_repository("heir", str(tmp_path / "ns"))
    with pytest.raises(NamespaceInUseError):
        repo.collect_garbage()
