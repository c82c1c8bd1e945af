"""What each verb promises, and what it costs: the files that it reads and writes, and no others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from benchmarks.counting import recorded_reads
from sparklake import Branch, Commit, Lake, Repository
from sparklake.errors import (
    MergeConflictError,
    NoChangesError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from sparklake.graveler.commits import STRATEGY_METADATA_KEY
from sparklake.graveler.ports import LayerKind
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import (
    TESTER,
    commit_all,
    contents,
    files_below,
    namespace_of,
    put_all,
    stage_table,
)
from sparklake.verbs import commits
from sparklake.verbs.base import runner
from sparklake.verbs.base import staging as staged
from sparklake.verbs.objects.list import Folder
from tests.support.lakes import paths, refused

OBJECTS = {f"k/{number:03}": b"%d" % number for number in range(80)}
CALLS = (
    "get",
    "get_many",
    "paths",
    "put_if_absent",
    "put_many_if_absent",
    "put_files_if_absent",
    "find",
    "checksum",
    "list",
)


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    return small_lake.create_repository("lake", str(folder / "namespace"), range_records=4)


@pytest.fixture
def main(repo: Repository) -> Branch:
    branch = repo.branch("main")
    commit_all(branch, dict(OBJECTS), "base")
    return branch


@contextmanager
def recorded_calls() -> Iterator[list[str]]:
    """Note every call of a local store."""
    calls: list[str] = []
    with mock.patch.multiple(LocalStore, **{name: noting(name, calls) for name in CALLS}):
        yield calls


def noting(name: str, calls: list[str]) -> Any:
    called = getattr(LocalStore, name)

    def note(store: LocalStore, *arguments: Any) -> Any:
        calls.append(name)
        return called(store, *arguments)

    return note


def ranges(repo: Repository, ref: str) -> list[str]:
    return [each.id for each in repo._context.tree(repo.resolve(ref)).ranges]


def tables(repo: Repository) -> set[str]:
    return {each.name for each in (namespace_of(repo) / "_lakefs").iterdir()} - {"dummy"}


def verbs(repo: Repository) -> list[tuple[str, str, str]]:
    return [(each.verb, each.ref, each.who) for each in repo.operations(1000)][::-1]


def rows(diff: object) -> list[tuple[str, str]]:
    return [(each.type.value, each.path) for each in diff]  # type: ignore[attr-defined]


def layers(branch: Branch) -> list[tuple[LayerKind, bool]]:
    (state,) = (each for each in branch._context.refs.branches.list() if each.name == branch.name)
    return [(each.kind, each.sealed) for each in state.layers]


# --- repositories ---------------------------------------------------------------------------------


def test_a_new_repository(small_lake: Lake, repo: Repository, folder: Path) -> None:
    first = repo.resolve("main")
    assert first.parents == ()
    assert first.meta_range_id == ""
    assert first.generation == 1
    assert list(repo.log("main")) == [first]
    assert [each.name for each in repo.branches()] == ["main"]
    assert repo.tags() == []
    assert list(repo.objects("main")) == []
    assert repo.info.storage_namespace == f"file://{folder}/namespace"
    assert verbs(repo) == [("create-repository", "main", TESTER)]
    assert list(files_below(folder)) == ["namespace/_lakefs/dummy"]
    assert [each.name for each in small_lake.repositories()] == ["lake"]


def test_another_default_branch(small_lake: Lake, folder: Path) -> None:
    made = small_lake.create_repository("lake", str(folder / "n"), default_branch="trunk")
    assert [each.name for each in made.branches()] == ["trunk"]
    with pytest.raises(RefNotFoundError):
        made.resolve("main")


def test_a_namespace_may_hold_files_of_others(small_lake: Lake, folder: Path) -> None:
    (folder / "n").mkdir()
    (folder / "n" / "theirs").write_bytes(b"theirs")
    made = small_lake.create_repository("lake", str(folder / "n"))
    commit_all(made.branch("main"), {"k": b"v"}, "m")
    assert (folder / "n" / "theirs").read_bytes() == b"theirs"


def test_a_repository_made_again_sees_nothing_of_the_old(small_lake: Lake, folder: Path) -> None:
    old = small_lake.create_repository("lake", str(folder / "old"))
    head = commit_all(old.branch("main"), {"k": b"old"}, "old")
    old.create_branch("dev", "main").put("staged", b"staged")
    old.create_tag("v1", "main")
    before = files_below(folder)
    small_lake.delete_repository("lake")
    with pytest.raises(RepositoryNotFoundError):
        small_lake.repository("lake")
    assert files_below(folder) == before

    new = small_lake.create_repository("lake", str(folder / "new"))
    assert [each.name for each in new.branches()] == ["main"]
    assert new.tags() == []
    assert len(list(new.log("main"))) == 1
    assert paths(new, "main") == []
    assert verbs(new) == [("create-repository", "main", TESTER)]
    for ref in (head.id, head.id[:8], "dev", "v1"):
        with pytest.raises(RefNotFoundError):
            new.resolve(ref)
    with pytest.raises(RefNotFoundError):
        old.branch("main")


# --- refs -----------------------------------------------------------------------------------------


def test_a_branch_is_made_at_once(repo: Repository, main: Branch) -> None:
    repo.create_tag("v1", "main")
    for name, source in (
        ("a", "main"),
        ("b", "main~1"),
        ("c", "v1"),
        ("d", main.head.id),
        ("e", main.head.id[:10]),
    ):
        with recorded_calls() as calls:
            made = repo.create_branch(name, source)
        assert calls == []
        assert made.head == repo.resolve(source)
        assert not made.is_dirty
    assert contents(repo, "b") == {}
    assert contents(repo, "c") == OBJECTS


def test_names_of_the_lakefs_pages(repo: Repository, main: Branch) -> None:
    joe = repo.create_branch("dev:joe-bugfix-1234", source="main")
    jane = repo.create_branch("dev:jane", source="main")
    commit_all(joe, {"k/001": b"joe"}, "joe")
    commit_all(jane, {"k/002": b"jane"}, "jane")
    repo.create_tag("v2.3", "main")
    repo.create_tag("dev:jane-before-v2.3-merge", "dev:jane")
    repo.merge("dev:joe-bugfix-1234", "main")
    repo.merge("dev:jane-before-v2.3-merge", "main")
    assert contents(repo, "main") == {**OBJECTS, "k/001": b"joe", "k/002": b"jane"}
    assert contents(repo, "v2.3") == OBJECTS
    assert repo.resolve("main^2") == repo.resolve("dev:jane-before-v2.3-merge")
    assert [each.name for each in repo.tags()] == ["dev:jane-before-v2.3-merge", "v2.3"]


def test_refs_keep_commits_when_branches_go(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    head = commit_all(dev, {"new": b"new"}, "dev")
    dev.put("staged", b"staged")
    repo.delete_branch("dev", discard_staged=True)
    with pytest.raises(RefNotFoundError):
        repo.branch("dev")
    assert contents(repo, head.id) == {**OBJECTS, "new": b"new"}
    again = repo.create_branch("dev", head.id)
    assert not again.is_dirty
    assert paths(repo, "dev", "staged") == []


def test_every_move_of_a_ref_is_in_the_log(repo: Repository, folder: Path) -> None:
    main = repo.branch("main")
    first = main.head
    one = commit_all(main, {"a": b"1"}, "one")
    dev = repo.create_branch("dev", "main")
    dev.put("b", b"2")
    two = dev.commit("two", committer="joe")
    tag = repo.create_tag("v1", "dev")
    merged = repo.merge("dev", "main", committer="jane")
    (folder / "source").mkdir()
    (folder / "source" / "file").write_bytes(b"file")
    imported = main.import_objects(str(folder / "source"), "in", committer="robot").commit
    repo.delete_tag("v1")
    repo.delete_branch("dev")
    assert [
        (each.verb, each.ref, each.who, each.from_commit, each.to_commit)
        for each in repo.operations()
    ][::-1] == [
        ("create-repository", "main", TESTER, None, first.id),
        ("commit", "main", TESTER, first.id, one.id),
        ("create-branch", "dev", TESTER, None, one.id),
        ("commit", "dev", "joe", one.id, two.id),
        ("create-tag", "v1", TESTER, None, tag.commit_id),
        ("merge", "main", "jane", one.id, merged.id),
        ("import", "main", "robot", merged.id, imported.id),
        ("delete-tag", "v1", TESTER, two.id, None),
        ("delete-branch", "dev", TESTER, two.id, None),
    ]


def test_staging_is_no_move(repo: Repository, main: Branch) -> None:
    before = verbs(repo)
    put_all(main, {"a": b"1", "k/001": None})
    main.delete_prefix("k/01")
    main.reset()
    main.put("k/001", OBJECTS["k/001"])
    with pytest.raises(NoChangesError):
        main.commit("nothing")
    assert verbs(repo) == before


# --- staging and commits --------------------------------------------------------------------------


def test_what_is_staged_is_seen_on_the_branch_alone(repo: Repository, main: Branch) -> None:
    info = main.put("k/000", b"new body", {"owner": "me"}, content_type="text/plain")
    main.put("z", b"z")
    main.delete("k/001")
    assert repo.read_bytes("main", "k/000") == b"new body"
    shown = repo.stat("main", "k/000")
    assert (shown.size, shown.metadata, shown.content_type) == (8, {"owner": "me"}, "text/plain")
    assert shown.address == info.address
    assert rows(main.diff()) == [("changed", "k/000"), ("removed", "k/001"), ("added", "z")]
    assert rows(main.diff("k/")) == [("changed", "k/000"), ("removed", "k/001")]
    for ref in ("main@", "main~0", main.head.id):
        assert contents(repo, ref) == OBJECTS
    assert contents(repo, repo.create_branch("dev", "main").name) == OBJECTS
    assert rows(repo.diff("main", "dev")) == []
    main.reset()
    assert not main.is_dirty
    assert contents(repo, "main") == OBJECTS


def test_a_put_file_is_a_copy(repo: Repository, main: Branch, folder: Path) -> None:
    file = folder / "file"
    file.write_bytes(b"as it was")
    main.put_file("k/000", file)
    with file.open("wb") as opened:
        opened.write(b"as it is now")
    assert repo.read_bytes("main", "k/000") == b"as it was"


def test_what_a_commit_says(repo: Repository, main: Branch) -> None:
    main.put("a", b"a")
    made = main.commit("why", committer="joe", metadata={"b": "2", "a": "1"})
    assert (made.message, made.committer) == ("why", "joe")
    assert dict(made.metadata) == {"a": "1", "b": "2"}
    assert repo.resolve("main") == made
    main.put("a", b"b")
    assert main.commit("who").committer == TESTER


def test_a_change_that_is_none(repo: Repository, main: Branch) -> None:
    """The same content again, or a deletion of nothing, leaves the branch clean."""
    head = main.head
    main.put("k/000", OBJECTS["k/000"])
    main.delete("nothing/there")
    assert main.is_dirty
    assert rows(main.diff()) == []
    with pytest.raises(NoChangesError, match="nothing to commit"):
        main.commit("m")
    assert not main.is_dirty
    assert main.head == head
    empty = main.commit("m", allow_empty=True)
    assert (empty.parents, empty.meta_range_id) == ((head.id,), head.meta_range_id)
    main.put("k/000", OBJECTS["k/000"])
    assert main.commit("again", allow_empty=True).meta_range_id == head.meta_range_id
    assert not main.is_dirty


def test_the_last_word_on_a_key_counts(repo: Repository, main: Branch, folder: Path) -> None:
    """Layer over layer: rows, a run, rows, a run."""
    (folder / "bulk").write_bytes(b"bulk")
    bulk = {"size": 4, "address": f"file://{folder}/bulk"}
    put_all(main, {"x1": b"rows", "x2": b"rows", "x3": b"rows", "k/000": None})
    main.stage(stage_table([{"path": "x2", **bulk}, {"path": "x3", **bulk}]))
    put_all(main, {"x3": b"top", "x4": b"top"})
    main.stage(pa.table({"path": ["x4", "nothing"], "deleted": [True, True]}))
    assert layers(main) == [
        (LayerKind.RUN, True),
        (LayerKind.ROWS, True),
        (LayerKind.RUN, True),
        (LayerKind.ROWS, True),
    ]
    expected = {**OBJECTS, "x1": b"rows", "x2": b"bulk", "x3": b"top"}
    del expected["k/000"]
    assert contents(repo, "main") == expected
    main.commit("m")
    assert contents(repo, "main@") == expected
    assert not main.is_dirty


def test_a_stage_of_nothing(repo: Repository, main: Branch) -> None:
    main.stage(stage_table([{"path": "k", "deleted": True}]).slice(1))
    assert main.delete_prefix("nothing/") == 0
    assert not main.is_dirty


def test_staging_takes_types_of_other_widths(repo: Repository, main: Branch) -> None:
    table = pa.table(
        {
            "path": pa.array(["a", "b"], pa.large_string()),
            "size": pa.array([1, 2], pa.int32()),
            "address": pa.array(["data/x", "data/x"]).dictionary_encode(),
            "checksum": pa.array(["c", "c"]),
            "content_type": pa.nulls(2),
            "mtime": pa.array([0, 1], pa.timestamp("ms")),
            "metadata": pa.nulls(2),
            "deleted": pa.nulls(2),
        }
    )
    main.stage(table)
    assert [repo.stat("main", path).size for path in ("a", "b")] == [1, 2]


def test_a_put_between_seal_and_swap_is_staged_after(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit takes what it has sealed, to the row; the writer was never in the way."""
    put_all(main, {"before": b"1", "both": b"before"})
    apply_layers = commits.apply_layers

    def interrupted(*arguments: Any) -> Any:
        tree = apply_layers(*arguments)
        put_all(main, {"after": b"2", "both": b"after"})
        main.stage(pa.table({"path": ["k/000"], "deleted": [True]}))
        main.put("last", b"3")
        return tree

    monkeypatch.setattr(commits, "apply_layers", interrupted)
    made = main.commit("m")
    monkeypatch.undo()
    assert contents(repo, made.id) == {**OBJECTS, "before": b"1", "both": b"before"}
    assert rows(main.diff()) == [
        ("added", "after"),
        ("changed", "both"),
        ("removed", "k/000"),
        ("added", "last"),
    ]
    assert layers(main) == [(LayerKind.ROWS, False), (LayerKind.RUN, True), (LayerKind.ROWS, True)]
    main.commit("the rest")
    after = {**OBJECTS, "before": b"1", "both": b"after", "after": b"2", "last": b"3"}
    del after["k/000"]
    assert contents(repo, "main@") == after


def test_a_commit_that_lost_its_race_starts_again(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another commit gets in between twice; ours ends on top of both, with its own changes."""
    monkeypatch.setattr(runner, "_TURN_SECONDS", 0.1)  # The others would wait for our turn to end.
    other = repo._context
    apply_layers, turns = commits.apply_layers, iter(["one", "two"])

    def overtaken(*arguments: Any) -> Any:
        tree = apply_layers(*arguments)
        message = next(turns, None)
        if message:
            overtake(message)
        return tree

    def overtake(message: str) -> None:
        monkeypatch.setattr(commits, "apply_layers", apply_layers)
        Branch(other, "main").put(message, b"other")
        Branch(other, "main").commit(message)
        Branch(other, "main").put("mine too", message.encode())
        monkeypatch.setattr(commits, "apply_layers", overtaken)

    main.put("mine", b"1")
    monkeypatch.setattr(commits, "apply_layers", overtaken)
    made = main.commit("mine")
    assert [each.message for each in repo.log("main")][:3] == ["mine", "two", "one"]
    assert contents(repo, made.id) == {
        **OBJECTS,
        "mine": b"1",
        "one": b"other",
        "two": b"other",
        "mine too": b"two",
    }
    assert not main.is_dirty


def test_many_rows_staged_one_by_one(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than travel inside of a plan are written as a run; the outcome is the same."""
    changes = {f"k/{number:03}": None if number % 3 else b"x" for number in range(0, 80, 2)}
    twin = repo.create_branch("twin", "main")
    put_all(twin, changes)
    expected = twin.commit("inline").meta_range_id
    put_all(main, changes)
    monkeypatch.setattr(staged, "INLINE_ROWS", 7)
    after = contents(repo, "main")
    assert len(list(main.diff())) == len(changes)
    assert paths(repo, "main", "k/01") == [each for each in after if each.startswith("k/01")]
    assert main.commit("spilled").meta_range_id == expected
    assert contents(repo, "main@") == after == contents(repo, "twin")


def test_deleting_a_prefix(repo: Repository, main: Branch) -> None:
    main.put("k/010x", b"staged")
    main.delete("k/011")
    assert main.delete_prefix("k/01") == 10
    assert paths(repo, "main", "k/01") == []
    assert len(paths(repo, "main")) == 70
    main.commit("m")
    assert main.delete_prefix("") == 70
    main.commit("all")
    assert main.head.meta_range_id == ""
    assert contents(repo, "main") == {}


def test_levels(repo: Repository) -> None:
    main = repo.branch("main")
    put_all(main, dict.fromkeys(["a", "a/b", "a/c/d", "a/c/e", "ab", "b/", "c//d"], b""))
    shown = [each.path for each in repo.folder("main")]
    assert shown == ["a", "a/", "ab", "b/", "c/"]
    below = list(repo.folder("main", "a/"))
    assert [each.path for each in below] == ["a/b", "a/c/"]
    assert [isinstance(each, Folder) for each in below] == [False, True]
    assert [each.path for each in repo.folder("main", "a")] == ["a", "a/", "ab"]


# --- merges ---------------------------------------------------------------------------------------


def test_what_a_merge_says(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    theirs = commit_all(dev, {"k/001": b"theirs"}, "theirs")
    ours = commit_all(main, {"k/070": b"ours"}, "ours")
    made = repo.merge("dev", "main")
    assert made.parents == (ours.id, theirs.id)
    assert made.message == "Merge 'dev' into 'main'"
    assert dict(made.metadata) == {STRATEGY_METADATA_KEY: "default"}
    assert STRATEGY_METADATA_KEY == ".lakefs.merge.strategy"
    assert made.generation == 1 + max(ours.generation, theirs.generation)
    assert contents(repo, "main") == {**OBJECTS, "k/001": b"theirs", "k/070": b"ours"}
    assert repo.branch("dev").head == theirs
    with pytest.raises(NoChangesError):
        repo.merge("dev", "main")


@pytest.mark.parametrize("strategy", ["source-wins", "dest-wins"])
def test_a_strategy_decides(repo: Repository, main: Branch, strategy: str) -> None:
    dev = repo.create_branch("dev", "main")
    theirs = commit_all(dev, {"k/001": b"theirs", "k/002": None, "k/003": b"theirs"}, "theirs")
    ours = commit_all(main, {"k/001": b"ours", "k/002": b"ours", "k/003": None}, "ours")
    made = repo.merge("dev", "main", strategy, message="m", metadata={"a": "1"})
    assert made.parents == (ours.id, theirs.id)
    assert dict(made.metadata) == {"a": "1", STRATEGY_METADATA_KEY: strategy}
    winner = contents(repo, "dev" if strategy == "source-wins" else ours.id)
    assert contents(repo, "main") == winner
    assert rows(repo.diff("main~1", "main")) == rows(
        repo.diff("main~1", "dev" if strategy == "source-wins" else "main~1")
    )


def test_a_conflict_changes_nothing(small_lake: Lake, repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"k/001": b"theirs", "k/040": None, "k/060": b"clean"}, "theirs")
    commit_all(main, {"k/001": b"ours", "k/040": b"ours"}, "ours")
    words = "2 conflicting objects.*'k/001', 'k/040'"
    with refused(small_lake, MergeConflictError, words) as raised:
        repo.merge("dev", "main")
    error = raised.value
    assert isinstance(error, MergeConflictError)
    assert error.count == 2
    assert rows(error.conflicts) == [("conflict", "k/001"), ("conflict", "k/040")]
    preview = rows(repo.diff("main", "dev", three_way=True))
    assert preview == [("conflict", "k/001"), ("conflict", "k/040"), ("changed", "k/060")]


def test_the_same_change_on_both_sides_is_no_conflict(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    change = {"k/001": b"same", "k/002": None, "new": b"same"}
    commit_all(dev, {**change, "mine": b"1"}, "theirs")
    commit_all(main, {**change, "ours": b"1"}, "ours")
    repo.merge("dev", "main")
    expected = {**OBJECTS, **change, "mine": b"1", "ours": b"1"}
    assert contents(repo, "main") == {k: v for k, v in expected.items() if v is not None}


def test_a_merge_into_what_has_not_moved_reads_nothing(repo: Repository, main: Branch) -> None:
    """Its tree is the source's, by id."""
    dev = repo.create_branch("dev", "main")
    theirs = commit_all(dev, {"k/001": b"theirs"}, "theirs")
    before = tables(repo)
    with recorded_reads() as read:
        made = repo.merge("dev", "main")
    assert made.meta_range_id == theirs.meta_range_id
    assert made.parents == (repo.resolve("main~1").id, theirs.id)
    assert read == []
    assert tables(repo) == before


def test_a_merge_of_a_tag_a_commit_and_a_step(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    one = commit_all(dev, {"a": b"1"}, "one")
    commit_all(dev, {"b": b"2"}, "two")
    commit_all(dev, {"c": b"3"}, "three")
    repo.create_tag("v1", "dev~1")
    assert repo.merge(one.id, "main").parents[1] == one.id
    assert repo.merge("v1", "main").parents[1] == repo.resolve("v1").id
    assert repo.merge("dev~0", "main").parents[1] == repo.resolve("dev").id
    assert contents(repo, "main") == {**OBJECTS, "a": b"1", "b": b"2", "c": b"3"}


# --- imports --------------------------------------------------------------------------------------


@pytest.fixture
def source(folder: Path) -> Path:
    """Is a folder with files, in folders, of odd names."""
    place = folder / "source"
    for name in ("a", "b c", "deep/er/d", "é", "x=1/p%20", "x=2/q"):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return place


def sources(source: Path, prefix: str = "") -> dict[str, bytes]:
    files = sorted(path for path in source.rglob("*") if path.is_file())
    return {prefix + str(path.relative_to(source)): path.read_bytes() for path in files}


def test_an_import_copies_nothing(repo: Repository, source: Path) -> None:
    main = repo.branch("main")
    with recorded_calls() as calls:
        made = main.import_objects(str(source), message="m", replace=True).commit
    assert "get" not in calls
    assert "put_if_absent" not in calls
    assert contents(repo, "main") == sources(source)
    for each in repo.objects("main"):
        assert each.address == f"file://{source}/{each.path}"
        assert each.mtime // 1000 == (source / each.path).stat().st_mtime_ns // 1000
        assert repo.read_bytes("main", each.path) == each.path.encode()
    assert made.parents == (repo.resolve("main~1").id,)
    assert (made.message, made.committer) == ("m", TESTER)
    names = {each.name for each in namespace_of(repo).iterdir()}
    assert names <= {"_lakefs", ".sparklake-tmp"}
    bodies = {path.read_bytes() for path in source.rglob("*") if path.is_file()}
    assert bodies.isdisjoint(
        path.read_bytes() for path in (namespace_of(repo) / "_lakefs").iterdir()
    )


@pytest.mark.parametrize("prefix", ["k/01", "k/010", "k/0", "k", "zz", "a", "k/079"])
def test_an_import_replaces_what_is_under_its_prefix(
    repo: Repository, main: Branch, source: Path, prefix: str
) -> None:
    """And nothing beside it, wherever ranges end: the tree is that of the same rows, staged."""
    put_all(main, {f"{prefix}/old": b"old", f"{prefix}.": b"dot", f"{prefix}0": b"zero"})
    main.commit("neighbours")
    rest = {p: b for p, b in contents(repo, "main").items() if not p.startswith(f"{prefix}/")}
    main.import_objects(str(source), prefix, replace=True)
    expected = {**rest, **sources(source, f"{prefix}/")}
    assert contents(repo, "main") == expected

    twin = repo.create_branch("twin", "main~3")
    put_all(twin, dict(rest))
    twin.stage(repo.objects("main", f"{prefix}/").to_arrow())
    assert rows(repo.diff("main", twin.commit("one by one").id)) == []
    assert twin.head.meta_range_id == main.head.meta_range_id


def test_an_import_of_everything(repo: Repository, main: Branch, source: Path) -> None:
    main.import_objects(str(source), replace=True)
    assert contents(repo, "main") == sources(source)
    assert contents(repo, "main~1") == OBJECTS


def test_an_import_again(small_lake: Lake, repo: Repository, main: Branch, source: Path) -> None:
    main.import_objects(str(source), "in/")
    with refused(small_lake, NoChangesError, "'main' already has all of these objects under 'in/'"):
        main.import_objects(str(source), "in")
    (source / "a").write_bytes(b"changed")
    (source / "b c").unlink()
    (source / "new").write_bytes(b"new")
    main.import_objects(str(source), "in/")
    assert rows(repo.diff("main~1", "main")) == [
        ("changed", "in/a"),
        ("removed", "in/b c"),
        ("added", "in/new"),
    ]
    os.utime(source / "a", (1, 1))
    with pytest.raises(NoChangesError):
        main.import_objects(str(source), "in/")


def test_an_import_opens_only_the_ranges_at_its_bounds(
    repo: Repository, main: Branch, source: Path
) -> None:
    before = ranges(repo, "main")
    with recorded_reads() as read:
        main.import_objects(str(source), "k/04")
    assert len(set(read) & set(before)) <= 2
    assert len(set(before) - set(ranges(repo, "main"))) < 6


# --- work done ------------------------------------------------------------------------------------


def one_change(repo: Repository, main: Branch) -> tuple[Commit, Commit]:
    base = main.head
    return base, commit_all(main, {"k/040": b"changed"}, "one change")


def test_a_commit_opens_only_what_changes(repo: Repository, main: Branch) -> None:
    before, files = set(ranges(repo, "main")), tables(repo)
    assert len(before) > 10
    main.put("k/040", b"changed")
    with recorded_reads() as read:
        main.commit("one change")
    after = set(ranges(repo, "main"))
    assert set(read) == before - after
    assert len(read) == 1
    assert tables(repo) - files == (after - before) | {main.head.meta_range_id}


def test_a_commit_of_a_run_opens_only_what_changes(repo: Repository, main: Branch) -> None:
    before = set(ranges(repo, "main"))
    row = {"size": 1, "address": "data/x", "checksum": "c"}
    main.stage(stage_table([{"path": path, **row} for path in ("k/003", "k/077")]))
    with recorded_reads() as read:
        main.commit("two changes")
    opened = before - set(ranges(repo, "main"))
    assert len(opened) == 2
    assert set(read) & before == opened


def test_a_diff_opens_only_what_differs(repo: Repository, main: Branch) -> None:
    base, head = one_change(repo, main)
    left, right = set(ranges(repo, base.id)), set(ranges(repo, head.id))
    with recorded_reads() as read:
        assert rows(repo.diff(base.id, head.id)) == [("changed", "k/040")]
    assert sorted(read) == sorted(left ^ right)
    with recorded_reads() as read:
        assert rows(repo.diff(base.id, head.id, "k/00")) == []
        assert rows(repo.diff(base.id, base.id)) == []
        assert rows(repo.diff("main", "main~1~0", "zzz")) == []
    assert read == []


def test_a_merge_opens_only_what_both_sides_changed(repo: Repository, main: Branch) -> None:
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"k/001": b"theirs", "k/040": b"theirs"}, "theirs")
    commit_all(main, {"k/041": b"ours", "k/078": b"ours"}, "ours")
    base, source, dest = (set(ranges(repo, ref)) for ref in ("main~1", "dev", "main"))
    files = tables(repo)
    shared = {each for each in base | source | dest if is_at(repo, each, "k/040")}
    with recorded_reads() as read:
        repo.merge("dev", "main")
    assert set(read) & (base | source | dest) == shared
    merged = set(ranges(repo, "main"))
    assert merged - base - source - dest, "a range has both changes"
    assert tables(repo) - files == (merged - base - source - dest) | {
        repo.resolve("main").meta_range_id
    }
    assert contents(repo, "main") == {
        **OBJECTS,
        "k/001": b"theirs",
        "k/040": b"theirs",
        "k/041": b"ours",
        "k/078": b"ours",
    }


def is_at(repo: Repository, range_id: str, key: str) -> bool:
    """Return whether a range holds a key, in any of the trees."""
    trees = (repo._context.tree(repo.resolve(ref)) for ref in ("main~1", "main", "dev"))
    found = (each for tree in trees for each in tree.ranges if each.id == range_id)
    return any(each.min_key <= key.encode() <= each.max_key for each in found)


def test_reading_one_object_opens_one_range(repo: Repository, main: Branch) -> None:
    with recorded_reads() as read:
        repo.stat("main", "k/040")
        assert paths(repo, "main", "k/040") == ["k/040"]
        assert paths(repo, "main", "z") == []
    assert len(set(read) & set(ranges(repo, "main"))) == 1
