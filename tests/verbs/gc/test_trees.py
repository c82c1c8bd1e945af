"""The trees of expired commits: what is deleted, what stays, and every verb beside it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from benchmarks import tree_collection
from benchmarks.counting import recorded_reads
from sparklake import Lake, Repository
from sparklake.errors import (
    CollectionRunningError,
    CollectionStartedError,
    ExpiredError,
    MergeConflictError,
    MissingFileError,
    StoreError,
)
from sparklake.graveler.dumps.dump import dump_table_ids, dump_trees, read_dump_manifest
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.layout import COLLECTED_KEY, candidates_key
from sparklake.namespace.markers import is_sweep_open
from sparklake.namespace.swept_tree_files import encode_ids, put_tree_files
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import commit_all, contents, namespace_of, stage_table
from sparklake.verbs.base.open_trees import TreeCaches
from sparklake.verbs.checks import trees
from sparklake.verbs.checks.dumps import check_nothing_lost
from sparklake.verbs.gc.runs import Sweep, open_sweeps
from sparklake.verbs.gc.trees import UnreferencedTreeFiles
from tests.support.cases import for_each
from tests.support.interleaved_calls import just_before
from tests.support.lakes import paths
from tests.verbs.gc.test_retention import aged_commits, days_ago, expired, old_repository

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = pytest.mark.both_stores

NO_GRACE = timedelta()


def tables_of(repo: Repository) -> set[str]:
    """Return the ids of all tables in the namespace."""
    found = (namespace_of(repo) / "_lakefs").iterdir()
    return {each.name for each in found if len(each.name) == 64}


def tables_named(repo: Repository, *refs: str) -> set[str]:
    """Return the ids of the tables of some refs."""
    trees = [repo.tree(each) for each in refs]
    return {each.id for tree in trees for each in (tree, *tree.ranges)} - {""}


def collect(repo: Repository) -> int:
    """Collect all garbage; return how many commits have lost their trees."""
    return repo.collect_garbage(grace=NO_GRACE).run.trees


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    return old_repository(small_lake, folder)


@pytest.fixture
def line(repo: Repository) -> dict[str, str]:
    """Is the ids of commits of main, of which a week keeps the last two."""
    return {name: each.id for name, each in aged_commits(repo, b"1").items()}


@pytest.fixture
def swept(repo: Repository, line: dict[str, str]) -> dict[str, str]:
    """Is the same commits, of which all but two have lost their trees."""
    repo.settings.set_retention(7, tree_days=0)
    assert collect(repo) == 4
    return line


def test_nothing_goes_without_a_rule(repo: Repository, line: dict[str, str]) -> None:
    repo.settings.set_retention(7)
    before = tables_of(repo)
    assert collect(repo) == 0
    assert expired(repo) == {"old", "older", "past"}
    assert tables_of(repo) == before
    repo.settings.clear_retention()
    assert collect(repo) == 0
    assert tables_of(repo) == before


def test_only_named_tables_stay(any_lake: Lake, folder: Path) -> None:
    with days_ago(50):
        repo = any_lake.create_repository("keeping", str(folder / "keeping"), range_records=2)
    main = repo.branch("main")
    for age, body in [(40, b"1"), (30, b"2"), (20, b"3"), (1, b"4")]:
        with days_ago(age):
            commit_all(main, {"a": body, "b": body, "same": b"same"}, body.decode())
    main.stage(stage_table([{"path": "s", "size": 1, "checksum": "c", "address": "s3://bucket/b"}]))
    repo.create_tag("v1", "main~3")
    repo.settings.set_retention(7, tree_days=0)
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE).run
    before = tables_of(repo)
    assert repo.collect_garbage().run.tree_files == 0, "all of them are young"
    assert tables_of(repo) == before
    done = repo.collect_garbage(grace=NO_GRACE).run
    # The collection that spared young tables has given up the trees.
    assert (found.trees, done.trees) == (2, 0)
    run = repo._context.trees.get(repo.branch_states()[0].layers[0].meta_range_id or "")  # type: ignore[arg-type]
    staged = {run.id, *(each.id for each in run.ranges)}
    assert tables_of(repo) == tables_named(repo, "main@", "main~1", "v1") | staged
    assert done.tree_files == found.tree_files == len(before) - len(tables_of(repo))
    assert done.tree_file_bytes == found.tree_file_bytes > 0
    assert sorted(contents(repo, "v1")) == ["a", "b", "same"]
    commit = main.commit("staged")
    assert "s" in paths(repo, commit.id)
    assert not (namespace_of(repo) / candidates_key(done.id)).exists()


def test_a_check_finds_nothing_after_a_sweep(repo: Repository, swept: dict[str, str]) -> None:
    report = repo.check("content")
    assert report.is_healthy
    assert report.kinds == {}


def test_a_check_beside_a_reset_and_a_collection_finds_nothing(
    repo: Repository, line: dict[str, str]
) -> None:
    """The check reads a commit that is dropped, and its tree collected, before it reads ranges."""
    repo.settings.set_retention(0, tree_days=0)
    branch = repo.create_branch("dropped", "main")
    commit_all(branch, {"dropped": b"1"}, "dropped")

    def drop() -> None:
        repo.delete_branch("dropped")
        collect(repo)

    with just_before(trees, "_check_ranges", drop):  # type: ignore[arg-type]
        report = repo.check("content")
    assert report.kinds == {}


def test_trees_stay_for_their_time(repo: Repository, line: dict[str, str]) -> None:
    repo.settings.set_retention(7, tree_days=30)
    assert collect(repo) == 0
    assert paths(repo, line["past"]) == ["a", "old", "older", "past"]
    assert tables_named(repo, *line.values()) <= tables_of(repo)
    repo.settings.set_retention(7, tree_days=0)
    assert collect(repo) == 4


def test_the_log_stays_and_says_so(repo: Repository, swept: dict[str, str]) -> None:
    assert [each.message for each in repo.log("main", 5)] == [
        *("head", "held", "past", "older", "old")
    ]
    assert expired(repo) == {"old", "older", "past"}
    assert repo.merge_base("main~3", "main~2").id == swept["older"]
    assert repo.resolve("main~4").id == swept["old"]
    shown = repo.show("main~2")
    assert (shown.has_expired, shown.added, shown.changed) == (True, None, None)
    # It has its own tree, but not its parent's.
    assert repo.show("main~1").added is None
    assert repo.show("main").added == 1


LISTED: dict[str, Callable[[Repository, str], object]] = {
    "ls": lambda repo, ref: list(repo.objects(ref)),
    "ls of a folder": lambda repo, ref: list(repo.folder(ref)),
    "stat": lambda repo, ref: repo.stat(ref, "a"),
    "exists": lambda repo, ref: repo.at(ref).exists("a"),
    "diff to it": lambda repo, ref: list(repo.diff("main", ref)),
    "diff from it": lambda repo, ref: list(repo.diff(ref, "main")),
    "three-way diff": lambda repo, ref: list(repo.diff(ref, "main", three_way=True)),
    "three-dot diff": lambda repo, ref: list(repo.diff("main", ref, three_dot=True)),
    "tree": lambda repo, ref: repo.tree(ref),
    "blame": lambda repo, ref: list(repo.blame(ref)),
    "revert of it": lambda repo, ref: repo.branch("main").revert(ref),
    "cherry-pick of its child": lambda repo, ref: repo.branch("main").cherry_pick("main~1"),
    "read": lambda repo, ref: repo.read_bytes(ref, "a"),
    "merge": lambda repo, ref: repo.merge(ref, "main"),
}


@for_each("ref", ["{}", "main~2", "{}~0"])
@for_each("verb", LISTED)
def test_what_needs_the_tree_is_refused(
    repo: Repository, swept: dict[str, str], verb: str, ref: str
) -> None:
    with pytest.raises(ExpiredError, match="gc rules show"):
        LISTED[verb](repo, ref.format(swept["past"]))


def test_histories_of_paths_end_where_trees_do(repo: Repository, swept: dict[str, str]) -> None:
    assert {row.path: row.commit.message for row in repo.blame("main", "head")} == {"head": "head"}
    with pytest.raises(ExpiredError):
        list(repo.blame("main", "older"))


def test_an_export_cannot_go_on_from_it(
    repo: Repository, swept: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ExpiredError):
        repo.export("main", str(tmp_path / "out"), since=swept["past"])
    assert repo.export("main", str(tmp_path / "new"), since="main~1").added == 1


# --- bases ----------------------------------------------------------------------------------------


def apart(repo: Repository) -> None:
    """Make a criss-cross of main and dev, all of it old, under two new heads."""
    main = repo.branch("main")
    with days_ago(40):
        commit_all(main, {"a": b"0", "b": b"0", "c": b"0"}, "base")
        dev = repo.create_branch("dev", "main")
        heads = [commit_all(main, {"b": b"1"}, "m").id, commit_all(dev, {"c": b"1"}, "d").id]
        repo.merge(heads[1], "main")
        repo.merge(heads[0], "dev")
    for age in (30, 20, 1):
        with days_ago(age):
            commit_all(main, {"a": b"m", f"m{age}": b"m"}, f"m{age}")
            commit_all(dev, {"a": b"d", f"d{age}": b"d"}, f"d{age}")


def test_bases_of_a_criss_cross_stay(repo: Repository) -> None:
    apart(repo)
    repo.settings.set_retention(7, tree_days=0)
    # The first commit, and those of 30 days ago.
    assert collect(repo) == 5
    assert expired(repo) > {"base", "m", "d", "m30"}
    assert len(repo.merge_bases("dev", "main")) == 2
    with pytest.raises(MergeConflictError):
        repo.merge("dev", "main")
    repo.merge("dev", "main", "source-wins")
    assert contents(repo, "main")["a"] == b"d"
    assert sorted(contents(repo, "main")) == [
        *("a", "b", "c", "d1", "d20", "d30", "m1", "m20", "m30")
    ]
    # After the merge, nothing needs them for the heads alone.
    repo.settings.set_retention(0, tree_days=0)
    assert collect(repo) > 0
    repo.merge("main", "dev")
    assert contents(repo, "main") == contents(repo, "dev")


# --- ids that are used again ----------------------------------------------------------------------


def test_a_commit_that_is_made_again_has_its_tree(repo: Repository, line: dict[str, str]) -> None:
    main = repo.branch("main")
    with days_ago(5):
        made = commit_all(main, {"x": b"x"}, "again")
        main.hard_reset("main~1")
        repo.settings.set_retention(0, tree_days=0)
        collect(repo)
        with pytest.raises(ExpiredError):
            list(repo.objects(made.id))
        assert commit_all(main, {"x": b"x"}, "again") == made
    assert repo.read_bytes(made.id, "x") == b"x"
    assert tables_named(repo, made.id) <= tables_of(repo)
    collect(repo)
    assert contents(repo, made.id)["x"] == b"x"


def row_of(repo: Repository, path: str, to: str) -> dict[str, object]:
    """Return an object of main as a row to stage at another path."""
    found = repo.stat("main", path)
    return {"path": to, "size": found.size, "checksum": found.checksum, "address": found.address}


def test_tables_that_are_written_again_are_read_again(small_lake: Lake, repo: Repository) -> None:
    """Another handle has read a range that names an object which is gone by now."""
    main, other = repo.branch("main"), small_lake.repository("repo")
    commit_all(main, {"a": b"1", "b": b"2"}, "first")
    assert contents(other, "main") == {"a": b"1", "b": b"2"}
    other._context.open_ranges.get_many(list(other.tree("main").ranges))
    commit_all(main, {"a": None, "b": None, "c": b"3"}, "second")
    repo.settings.set_retention(0, tree_days=0)
    collect(repo)
    third = commit_all(main, {"a": b"1", "b": b"2", "c": None}, "third")
    assert tables_named(repo, third.id) <= tables_of(repo)
    for ref in (third.id, "main"):
        assert other.read_bytes(ref, "a") == b"1"
    # What a writer takes from that range is there, too.
    other.branch("main").stage(stage_table([row_of(other, "a", "copy")]))
    assert repo.read_bytes("main", "copy") == b"1"


def test_caches_of_tasks_start_anew(repo: Repository, line: dict[str, str]) -> None:
    before = repo._context.workspace
    assert before.tree_sweeps == 0
    repo.settings.set_retention(7)
    collect(repo)
    assert repo._context.workspace == before
    repo.settings.set_retention(7, tree_days=0)
    collect(repo)
    repo.resolve("main")
    assert repo._context.workspace.tree_sweeps == 1


# --- beside others --------------------------------------------------------------------------------


def test_an_id_that_is_being_collected_is_never_used(
    repo: Repository, line: dict[str, str]
) -> None:
    """While tables are deleted, a verb needs one of them again: before and after its deletion."""
    main = repo.branch("main")
    repo.settings.set_retention(0, tree_days=0)
    commit_all(main, {"old": None}, "without")
    refused: list[str] = []

    def again() -> None:
        # It makes the tree of the commit before, whose tables are candidates.
        try:
            commit_all(main, {"old": b"1"}, "again")
        except CollectionRunningError as error:
            refused.append(str(error))

    delete = LocalStore.delete

    def deleting(store: LocalStore, key: str) -> None:
        delete(store, key)
        if key.startswith(tree_file_key("")) and not refused:
            again()

    with mock.patch.object(LocalStore, "delete", deleting):
        collect(repo)
    count = len(refused)
    assert "gc run" in refused[0]
    again()
    assert len(refused) == count
    assert contents(repo, "main")["old"] == b"1"
    assert tables_named(repo, "main") <= tables_of(repo)


def test_an_open_collection_refuses_its_candidates(repo: Repository) -> None:
    store, one, other = repo._context.store, "a" * 64, "b" * 64
    store.replace(candidates_key("run"), encode_ids([one]))
    assert put_tree_files(store, {tree_file_key(one): b"1"}) == [tree_file_key(one)]
    Sweep.open(store, "run")
    for there in (True, False):
        with pytest.raises(CollectionRunningError, match=one):
            put_tree_files(store, {tree_file_key(other): b"2", tree_file_key(one): b"1"})
        assert (store.find(tree_file_key(one)) is not None) is there
        store.delete(tree_file_key(one))
    assert store.find(tree_file_key(other)) is None, "it is refused before it writes anything"
    assert put_tree_files(store, {tree_file_key(other): b"2"}) == [tree_file_key(other)]
    Sweep.open(store, "other")
    with pytest.raises(CollectionRunningError, match=one):
        put_tree_files(store, {tree_file_key(one): b"1"})
    # Without a list of tables, none are deleted.
    open_sweeps(store)[0].store.delete(candidates_key("run"))
    assert put_tree_files(store, {tree_file_key(one): b"1"}) == [tree_file_key(one)]


def rows(path: str) -> pa.Table:
    row = {"path": path, "size": 1, "checksum": path, "address": f"s3://bucket/{path}"}
    return stage_table([row])


OVERTAKEN: dict[str, tuple[str, Callable[[Repository], object]]] = {
    "stage": ("add_run", lambda repo: repo.branch("main").stage(rows("s"))),
    "commit": ("move", lambda repo: repo.branch("main").commit("c")),
    "rm": ("add_run", lambda repo: repo.branch("main").delete_prefix("a")),
    "revert": ("move", lambda repo: repo.branch("other").revert("other")),
}


@pytest.mark.parametrize("verb", OVERTAKEN)
def test_a_verb_that_is_overtaken_writes_its_tables_again(repo: Repository, verb: str) -> None:
    main = repo.branch("main")
    commit_all(main, {"a": b"1", "b": b"1"}, "base")
    commit_all(repo.create_branch("other", "main"), {"a": b"2"}, "other")
    if verb == "commit":
        main.put("c", b"1")
    repo.settings.set_retention(36_500, tree_days=0)
    method, act = OVERTAKEN[verb]
    refs = repo._context.refs
    owner = type(refs.branches if method == "move" else refs.staging)
    gone: list[int] = []

    def sweep() -> None:
        gone.append(repo.collect_garbage(grace=NO_GRACE).run.tree_files)

    with just_before(owner, method, sweep):
        act(repo)
    assert gone[0] > 0, "the tables that it had written were collected"
    for each in repo.branches():
        list(repo.objects(each.name))
    main.commit("end", allow_empty=True)
    assert tables_named(repo, "main", "other") <= tables_of(repo)


@pytest.mark.parametrize("overtaken", ["the fence", "the move"])
def test_an_import_whose_ranges_are_collected_is_refused(repo: Repository, overtaken: str) -> None:
    """It writes its ranges before it reads the fence of its move."""
    main = repo.branch("main")
    commit_all(main, {"a": b"1"}, "base")
    repo.settings.set_retention(36_500, tree_days=0)
    table, head = rows("z"), main.head
    branches = type(repo._context.refs.branches)
    sweeping = just_before(branches, "move", lambda: repo.collect_garbage(grace=NO_GRACE))
    if overtaken == "the fence":
        sweeping = just_before(
            branches, "is_turn_held", lambda: repo.collect_garbage(grace=NO_GRACE)
        )
    with sweeping, pytest.raises(CollectionStartedError, match="this operation wrote"):
        main.import_objects(table, "i")
    assert main.head == head
    main.import_objects(table, "i")
    assert "i/z" in paths(repo, "main")


def test_one_that_dies_is_ended_by_the_next(repo: Repository, line: dict[str, str]) -> None:
    repo.settings.set_retention(7, tree_days=0)
    before = tables_of(repo)
    delete, left = LocalStore.delete, [3]

    def dying(store: LocalStore, key: str) -> None:
        if key.startswith(tree_file_key("")):
            left[0] -= 1
            if left[0] < 0:
                raise ZeroDivisionError
        delete(store, key)

    with mock.patch.object(LocalStore, "delete", dying), pytest.raises(ZeroDivisionError):
        collect(repo)
    after = tables_of(repo)
    assert after < before
    assert is_sweep_open(repo._context.store)
    with pytest.raises(ExpiredError):
        list(repo.objects(line["past"]))
    assert sorted(contents(repo, "main")) == sorted(["a", *line])
    sweeps = repo._context.refs.tree_sweeps
    collect(repo)
    repo.resolve("main")
    # That of the one that died has ended, too.
    assert repo._context.refs.tree_sweeps == sweeps + 2
    assert tables_of(repo) == tables_named(repo, "main", "main~1")


def test_a_collector_that_was_replaced_stops(repo: Repository, line: dict[str, str]) -> None:
    repo.settings.set_retention(7, tree_days=0)
    before = tables_of(repo)

    def ended() -> None:
        for each in open_sweeps(repo._context.store):
            Path(repo._context.store.root / each.marker).unlink()

    with (
        just_before(type(repo._context.store), "delete", ended),
        mock.patch("sparklake.verbs.gc.trees._DELETED_AT_ONCE", 1),
        pytest.raises(CollectionRunningError, match="another process closed it"),
    ):
        collect(repo)
    assert len(before - tables_of(repo)) == 1


def test_a_reader_of_a_table_that_goes_meanwhile_starts_again(repo: Repository) -> None:
    """A cherry-pick reads a head that another writer has replaced, and whose tree is gone."""
    main, other = repo.branch("main"), repo.create_branch("other", "main")
    commit_all(main, {"a": b"1", "b": b"1"}, "base")
    picked = commit_all(other, {"c": b"1"}, "picked")
    repo.settings.set_retention(0, tree_days=0)
    replaced: list[str] = []

    def replace() -> None:
        replaced.append(commit_all(main, {"a": b"2", "b": None}, "replaced").id)
        main.hard_reset(replaced[0])
        repo.collect_garbage(grace=NO_GRACE)

    with just_before(LocalStore, "get_many", replace):
        main.cherry_pick(picked.id)
    assert contents(repo, "main") == {"a": b"2", "c": b"1"}


# --- dumps ----------------------------------------------------------------------------------------


def test_the_latest_dump_can_be_restored(
    small_lake: Lake, repo: Repository, line: dict[str, str], folder: Path
) -> None:
    """Its heads have expired, and their trees stay for it."""
    repo.dump_refs()
    head = line["head"]
    commit_all(repo.branch("main"), {"new": b"1"}, "new")
    repo.settings.set_retention(0, tree_days=0)
    assert collect(repo) == 6
    manifest = read_dump_manifest(repo._context.store)
    assert set(dump_table_ids(repo._context.store, manifest)) <= tables_of(repo)
    assert dump_trees(repo._context.store, manifest) == {repo.resolve(head).meta_range_id}
    small_lake.delete_repository("repo")
    small_lake.restore_repository("repo", str(folder / "ns"))
    heir = small_lake.repository("repo")
    assert heir.resolve("main").id == head
    assert paths(heir, "main") == sorted(["a", *line])
    assert expired(heir) == {"held", "past", "older", "old"}
    with pytest.raises(ExpiredError):
        list(heir.objects(line["past"]))
    collect(heir)
    assert paths(heir, "main") == sorted(["a", *line])


def test_a_dump_is_read_once_unless_its_manifest_changes(
    repo: Repository, line: dict[str, str]
) -> None:
    repo.dump_refs()
    commit_all(repo.branch("main"), {"new": b"1"}, "new")
    repo.settings.set_retention(0, tree_days=0)
    store = repo._context.store
    manifest = read_dump_manifest(store)
    with recorded_reads() as names:
        collect(repo)
    roots = (manifest.branches_meta_range_id, manifest.commits_meta_range_id)
    with recorded_reads() as once:
        dump_table_ids(store, manifest)
        dump_trees(store, manifest)
        check_nothing_lost(repo._context)
    assert names.count("refs_manifest.json") == 2 + once.count("refs_manifest.json")
    assert all(names.count(each) == once.count(each) > 0 for each in roots)


def test_a_dump_whose_read_failed_is_read_again(repo: Repository, line: dict[str, str]) -> None:
    repo.dump_refs()
    context = repo._context
    files = UnreferencedTreeFiles(context, dict.fromkeys(tables_of(repo), 1))
    moment = context.refs.collections.look()
    failure = mock.patch.object(
        UnreferencedTreeFiles, "_files_of", side_effect=StoreError("a timeout")
    )
    with failure, pytest.raises(StoreError, match="a timeout"):
        files.drop_referenced(moment)
    files.drop_referenced(moment)
    manifest = read_dump_manifest(context.store)
    assert files.sizes.keys().isdisjoint(dump_table_ids(context.store, manifest))


def test_a_dump_after_a_collection_can_be_restored(
    small_lake: Lake, repo: Repository, swept: dict[str, str], folder: Path
) -> None:
    repo.dump_refs()
    small_lake.delete_repository("repo")
    small_lake.restore_repository("repo", str(folder / "ns"))
    heir = small_lake.repository("repo")
    assert expired(heir) == {"past", "older", "old"}
    assert heir.settings.retention == heir.settings.set_retention(7, tree_days=0)
    assert paths(heir, "main~1") == ["a", "held", "old", "older", "past"]


def test_a_table_that_is_missing_otherwise_is_damage(
    small_lake: Lake, repo: Repository, swept: dict[str, str], folder: Path
) -> None:
    repo.dump_refs()
    store = repo._context.store
    store.delete(tree_file_key(repo.resolve("main~1").meta_range_id))
    small_lake.delete_repository("repo")
    with pytest.raises(MissingFileError, match=swept["held"]):
        small_lake.restore_repository("repo", str(folder / "ns"))
    assert swept["past"] in json.loads(store.get(COLLECTED_KEY))


def test_a_restore_ends_a_collection_that_died(
    small_lake: Lake, repo: Repository, line: dict[str, str], folder: Path
) -> None:
    """Its list does not know what the restored refs name."""
    repo.dump_refs()
    repo.settings.set_retention(7, tree_days=0)
    dies = mock.patch.object(LocalStore, "delete", side_effect=ZeroDivisionError)
    with dies, pytest.raises(ZeroDivisionError):
        collect(repo)
    small_lake.delete_repository("repo")
    small_lake.restore_repository("repo", str(folder / "ns"))
    heir = small_lake.repository("repo")
    assert not is_sweep_open(heir._context.store)
    # No table is gone yet, so no commit has lost its tree.
    assert expired(heir) == set()
    for each in line.values():
        list(heir.objects(each))


def test_a_dump_waits_for_a_collection(repo: Repository, line: dict[str, str]) -> None:
    repo.settings.set_retention(7, tree_days=0)
    dump = repo.dump_refs
    refused: list[bool] = []

    def dumping() -> None:
        with pytest.raises(CollectionRunningError):
            dump()
        refused.append(True)

    with just_before(type(repo._context.store), "delete", dumping):
        collect(repo)
    assert refused
    dump()


# --- how much -------------------------------------------------------------------------------------


@pytest.fixture
def arguments() -> argparse.Namespace:
    return argparse.Namespace(count=2000, commits=24, kept=5, every=10, seed=1)


def test_a_long_history_needs_what_is_kept(
    tmp_path: Path, arguments: argparse.Namespace, any_lake: Lake
) -> None:
    with mock.patch("sparklake.connect", return_value=any_lake):
        found = tree_collection.measured(tmp_path, arguments)
    assert found["kept"] == 5
    assert found["after"] <= 1.2 * found["needed"]
    assert found["largest"] > 2 * found["needed"]


def test_handles_share_what_they_have_seen(repo: Repository) -> None:
    context = repo._context
    caches = TreeCaches(context.workspace, context.refs)
    before = caches.current()
    assert caches.current() is before
    context.refs.collections.end_tree_sweep()
    repo.resolve("main")
    assert caches.current() is not before
    assert caches.current().workspace.tree_sweeps == context.refs.tree_sweeps
