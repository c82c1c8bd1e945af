"""Where the objects go that are kept beside others."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import StrategyError
from sparklake.graveler.records import encode_record
from sparklake.rows.merges import KeptObject
from sparklake.strategies.both import kept_keys, marked
from sparklake.testing.lakes import commit_all, contents, memory_lake
from sparklake.verbs.merges import keep_both as keeping
from sparklake.verbs.merges.keep_both import places
from tests.support.oracle import Contents
from tests.support.trees import identities

identity = st.sampled_from([b"A", b"B", b"C"])
wanted = st.sampled_from([b"a.csv", b"a-2.csv", b"b"])
trees = st.dictionaries(st.sampled_from([b"a.csv", b"a-2.csv", b"a-3.csv", b"b", b"b-2"]), identity)


def stored(key: bytes, content: bytes) -> bytes:
    return encode_record(key, content, b"data")[1]


def kept(key: bytes, under: bytes, content: bytes) -> KeptObject:
    return KeptObject(key, under, stored(key, content))


def placed(wishes: list[tuple[bytes, bytes]], tree: Contents) -> Contents:
    """Return what is written for contents under keys that are wanted, beside a tree."""
    each = [kept(b"from %03d" % at, *wish) for at, wish in enumerate(wishes)]
    there = {key: stored(key, content) for key, content in tree.items()}
    return identities(places(each, there.get))


@given(st.lists(st.tuples(wanted, identity), max_size=8), trees)
def test_nothing_is_lost_and_nothing_overwritten(
    wishes: list[tuple[bytes, bytes]], tree: Contents
) -> None:
    made = placed(wishes, tree)
    assert not {*made} & {*tree}
    after = {**tree, **made}
    for under, content in wishes:
        numbered = [under, *(marked(under, b"-%d" % number) for number in range(2, 12))]
        keys = [key for key in numbered if after.get(key) == content]
        assert keys
        # No number is left out on the way to the one that it has.
        assert all(key in after for key in numbered[: numbered.index(keys[0])])


@pytest.mark.parametrize(
    ("key", "other"),
    [
        (b"a.csv", b"a-2.csv"),
        (b"a", b"a-2"),
        (b"x.y/a", b"x.y/a-2"),
        (b"x/a.tar.gz", b"x/a.tar-2.gz"),
        (b".hidden", b".hidden-2"),
        (b"x/", b"x/-2"),
        (b"\xff.csv", b"\xff-2.csv"),
    ],
)
def test_a_mark_goes_before_the_extension(key: bytes, other: bytes) -> None:
    assert marked(key, b"-2") == other


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("a.csv", ["a.source.csv", "a.source-2.csv", "a.source-3.csv"]),
        ("x/a.tar.gz", ["x/a.tar.source.gz", "x/a.tar.source-2.gz"]),
        ("_SUCCESS", ["_SUCCESS.source", "_SUCCESS.source-2", "_SUCCESS.source-3"]),
        ("t/p=1.5/_SUCCESS", ["t/p=1.5/_SUCCESS.source", "t/p=1.5/_SUCCESS.source-2"]),
        (".gitignore", [".gitignore.source", ".gitignore.source-2"]),
        ("x.y/.env", ["x.y/.env.source", "x.y/.env.source-2"]),
        (".env.local", [".env.source.local", ".env.source-2.local"]),
        ("a.", ["a.source.", "a.source-2."]),
        ("x/", ["x/.source", "x/.source-2"]),
    ],
)
def test_names_of_what_keep_both_keeps(key: str, names: list[str], tmp_path: Path) -> None:
    repo = memory_lake().create_repository("lake", str(tmp_path / "ns"))
    main = repo.branch("main")
    taken = dict.fromkeys(names[:-1], b"taken")
    commit_all(main, {key: b"base"}, "base")
    commit_all(repo.create_branch("dev", "main"), {key: b"source"}, "source")
    commit_all(main, {key: b"dest", **taken}, "dest")
    repo.merge("dev", "main", "keep-both")
    expected = {key: b"dest", **taken, names[-1]: b"source"}
    assert contents(repo, "main") == dict(sorted(expected.items()))


@pytest.mark.parametrize(
    ("wanted", "second"),
    [(b"b.old", b"b-2.old"), (b"a.bak", b"a-2.bak"), (b"b", b"b-2"), (b"a.source", b"a.source-2")],
)
def test_names_that_a_function_wants_are_numbered_before_the_extension(
    wanted: bytes, second: bytes
) -> None:
    assert list(islice(kept_keys(b"a", wanted), 2)) == [wanted, second]


def test_a_name_for_which_there_is_no_room_is_refused() -> None:
    long = b"x" * 1024
    with pytest.raises(
        StrategyError, match=r"there is no free key to keep both objects of 'k'.*1024"
    ):
        places([kept(b"k", long, b"A")], {long: stored(long, b"B")}.get)


@pytest.mark.parametrize("inline", [10_000, 10])
def test_many_are_kept_as_if_they_had_been_there(
    tmp_path: Path, inline: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "INLINE_ROWS", inline)
    lake = memory_lake()
    repo, twin = (
        lake.create_repository(name, str(tmp_path / name), range_records=4)
        for name in ("lake", "twin")
    )
    names = [f"{folder}/{number:02d}.csv" for folder in "ab" for number in range(20)]
    main = repo.branch("main")
    commit_all(main, dict.fromkeys(names, b"base"), "base")
    commit_all(repo.create_branch("dev", "main"), dict.fromkeys(names, b"source"), "source")
    commit_all(main, {name: name.encode() for name in names}, "dest")
    made = repo.merge("dev", "main", "keep-both")
    expected = {name: name.encode() for name in names}
    expected |= {name.replace(".csv", ".source.csv"): b"source" for name in names}
    assert contents(repo, "main") == dict(sorted(expected.items()))
    same = commit_all(twin.branch("main"), expected, "all of it")
    assert made.meta_range_id == same.meta_range_id


def test_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = memory_lake().create_repository("lake", str(tmp_path / "ns"), range_records=4)
    main = repo.branch("main")
    commit_all(main, {"x": b""}, "base")
    commit_all(repo.create_branch("dev", "main"), {"a": b"1", "b": b"1"}, "source")
    head = commit_all(main, {"a": b"2", "b": b"2"}, "dest")
    monkeypatch.setattr("sparklake.strategies.judging.MAX_KEPT", 1)
    with pytest.raises(StrategyError, match="merge was not applied: more than 1 conflicts keep"):
        repo.merge("dev", "main", "keep-both")
    with pytest.raises(StrategyError, match=r"cannot cherry-pick .*: more than 1 conflicts keep"):
        main.cherry_pick("dev", strategy="keep-both")
    assert main.head == head


@pytest.mark.parametrize("paths", [None, ["a.csv", "b.csv"]])
def test_a_preview_counts_what_is_really_kept(tmp_path: Path, paths: list[str] | None) -> None:
    """Not what is there already, nor what another conflict brings under the very key."""
    repo = memory_lake().create_repository("lake", str(tmp_path / "ns"), range_records=2)
    main = repo.branch("main")
    commit_all(main, {"a.csv": b"0", "b.csv": b"0", "b.source.csv": b"0"}, "base")
    there = {"a.source.csv": b"theirs a", "b.source.csv": b"ours b too"}
    source = {"a.csv": b"theirs a", "b.csv": b"theirs b", "b.source.csv": b"theirs b"}
    commit_all(repo.create_branch("dev", "main"), source, "source")
    commit_all(main, {"a.csv": b"ours a", "b.csv": b"ours b", **there}, "dest")
    rules = {"b.source.csv": "source-wins"}
    said = repo.preview_merge("dev", "main", "keep-both", paths=paths, rules=rules)
    before = contents(repo, "main")
    repo.merge("dev", "main", "keep-both", paths=paths, rules=rules)
    after = contents(repo, "main")
    added = {path: body for path, body in after.items() if path not in before}
    assert added == ({} if paths is None else {"b.source-2.csv": b"theirs b"})
    assert (said.added, said.added_bytes) == (len(added), sum(map(len, added.values())))
    assert said.changed == sum(after[path] != body for path, body in before.items())


def test_a_preview_counts_no_change_to_the_same(tmp_path: Path) -> None:
    repo = memory_lake().create_repository("lake", str(tmp_path / "ns"), range_records=2)
    main = repo.branch("main")
    commit_all(main, {"a": b"0"}, "base")
    commit_all(repo.create_branch("dev", "main"), {"a": b"1"}, "source")
    commit_all(main, {"a": b"2"}, "dest")
    said = repo.preview_merge("dev", "main", "tests.support.strategies:again")
    assert (said.changed, said.conflict_count, said.unresolved) == (0, 1, 0)
    before = main.head.meta_range_id
    assert repo.merge("dev", "main", "tests.support.strategies:again").meta_range_id == before
