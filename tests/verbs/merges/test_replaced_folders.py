"""Folders of data files that both sides of a merge replaced."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.counting import recorded_reads
from sparklake import Branch, Repository
from sparklake.errors import DirtyBranchError, MergeConflictError
from sparklake.testing.lakes import contents, memory_lake, put_all

TABLE = "tables/x"
Files = Mapping[str, "bytes | None"]


@pytest.fixture(params=[2, 1_000], ids=["small ranges", "one range"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    lake = memory_lake()
    return lake.create_repository("lake", str(tmp_path / "namespace"), range_records=request.param)


def commit(branch: Branch, files: Files) -> None:
    """Stage files below the table; None removes one. Commit."""
    branch.put_many({f"{TABLE}/{name}": body for name, body in files.items() if body is not None})
    for name, body in files.items():
        if body is None:
            branch.delete(f"{TABLE}/{name}")
    branch.commit("change")


@pytest.fixture
def sides(repo: Repository) -> tuple[Branch, Branch]:
    """Return dev and main, with a table of two partitions among many other objects."""
    main = repo.branch("main")
    main.put_many({f"{folder}/{number}": b"x" for folder in ("a", "z") for number in range(9)})
    commit(main, {f"day={day}/f{number}.parquet": b"f" for day in (1, 2) for number in range(5)})
    return repo.create_branch("dev", "main"), main


OLD = {f"day=1/f{number}.parquet": None for number in range(5)}
ALL = OLD | {f"day=2/f{number}.parquet": None for number in range(5)}


def table(repo: Repository, ref: str = "main") -> set[str]:
    return {path.removeprefix(f"{TABLE}/") for path in contents(repo, ref) if TABLE in path}


DAY_2 = {f"day=2/f{number}.parquet" for number in range(5)}
CASES: dict[str, tuple[Files, Files, str, set[str], set[str]]] = {
    # changes of dev and of main, the conflicting folder, and the table by source- and dest-wins
    "two overwrites of a partition": (
        {**OLD, "day=1/s.parquet": b"s"},
        {**OLD, "day=1/d.parquet": b"d"},
        "the partition 'tables/x/day=1'",
        DAY_2 | {"day=1/s.parquet"},
        DAY_2 | {"day=1/d.parquet"},
    ),
    "far from each other in the folder, with other changes": (
        {**OLD, "day=1/a.parquet": b"s", "day=3/s.parquet": b"s"},
        {**OLD, "day=1/z.parquet": b"d", "day=4/d.parquet": b"d"},
        "the partition 'tables/x/day=1'",
        DAY_2 | {"day=1/a.parquet", "day=3/s.parquet", "day=4/d.parquet"},
        DAY_2 | {"day=1/z.parquet", "day=3/s.parquet", "day=4/d.parquet"},
    ),
    "a compaction beside a removal of its input": (
        {**OLD, "day=1/s.parquet": b"s"},
        {"day=1/f1.parquet": None},
        "the partition 'tables/x/day=1'",
        DAY_2 | {"day=1/s.parquet"},
        DAY_2 | {f"day=1/f{number}.parquet" for number in (0, 2, 3, 4)},
    ),
    "two overwrites of the table": (
        {**ALL, "day=1/s.parquet": b"s", "day=3/s.parquet": b"s"},
        {**ALL, "day=1/d.parquet": b"d", "day=4/d.parquet": b"d"},
        "the table 'tables/x'",
        {"day=1/s.parquet", "day=3/s.parquet"},
        {"day=1/d.parquet", "day=4/d.parquet"},
    ),
    "two overwrites of the table with other partitions": (
        {**ALL, "day=3/s.parquet": b"s"},
        {**ALL, "day=4/d.parquet": b"d"},
        "the table 'tables/x'",
        {"day=3/s.parquet"},
        {"day=4/d.parquet"},
    ),
    "an overwrite of the table beside one of a partition": (
        {**ALL, "day=1/s.parquet": b"s", "day=3/s.parquet": b"s"},
        {**OLD, "day=1/d.parquet": b"d"},
        "the table 'tables/x'",
        {"day=1/s.parquet", "day=3/s.parquet"},
        DAY_2 | {"day=1/d.parquet"},
    ),
}


@pytest.mark.system
@pytest.mark.parametrize("case", CASES)
def test_two_replacements_are_a_conflict_that_every_way_of_its_message_resolves(
    repo: Repository, sides: tuple[Branch, Branch], case: str
) -> None:
    dev, main = sides
    source, dest, what, by_source, by_dest = CASES[case]
    for branch, files in ((dev, source), (main, dest)):
        branch.put(f"a/{branch.name}", b"beside")
        commit(branch, files)
    before, head = contents(repo, "main"), main.head
    with pytest.raises(MergeConflictError, match=f"both sides removed files of {what}") as caught:
        repo.merge("dev", "main")
    assert (caught.value.count, contents(repo, "main")) == (1, before)
    folder = what.split("'")[1]
    assert f"{folder}/**=source-wins" in str(caught.value)
    assert repo.preview_merge("dev", "main").unresolved == 1
    united = (table(repo, "dev") | table(repo)) - {
        name for name, body in {**source, **dest}.items() if body is None
    }
    for strategy, end in (
        ("source-wins", by_source),
        ("dest-wins", by_dest),
        ("keep-both", united),
    ):
        rules = {f"{folder}/**": strategy}
        preview = repo.preview_merge("dev", "main", rules=rules)
        merged = repo.merge("dev", "main", rules=rules)
        assert table(repo) == end
        assert contents(repo, "main").keys() >= {"a/dev", "a/main"}
        changed = preview.added + preview.removed + preview.changed
        after = contents(repo, "main")
        assert changed == sum(before.get(key) != after.get(key) for key in {*before, *after})
        winner = "" if strategy == "keep-both" else f"{folder}={strategy}"
        assert merged.metadata.get("sparklake.merge.winners", "") == winner
        main.hard_reset(head.id)


MERGED: dict[str, tuple[Files, Files]] = {
    "appends": ({"day=1/s.parquet": b"s"}, {"day=1/d.parquet": b"d"}),
    "an overwrite and an append": (
        {**OLD, "day=1/s.parquet": b"s"},
        {"day=1/d.parquet": b"d", "day=2/d.parquet": b"d"},
    ),
    "overwrites of different partitions": (
        {**OLD, "day=1/s.parquet": b"s"},
        dict.fromkeys(DAY_2) | {"day=2/d.parquet": b"d"},
    ),
    "rewrites of different files": (
        {"day=1/f0.parquet": None, "day=1/s.parquet": b"s"},
        {"day=1/f3.parquet": None, "day=1/d.parquet": b"d"},
    ),
    "equal overwrites": ({**OLD, "day=1/e.parquet": b"e"}, {**OLD, "day=1/e.parquet": b"e"}),
    "removals of a partition beside appends to others": (
        {**OLD, "day=3/s.parquet": b"s"},
        {**OLD, "day=4/d.parquet": b"d"},
    ),
    "an overwrite of the table and an append": (
        {**ALL, "day=3/s.parquet": b"s"},
        {"day=1/d.parquet": b"d"},
    ),
}


@pytest.mark.parametrize("case", MERGED)
def test_other_changes_to_a_folder_are_merged(
    repo: Repository, sides: tuple[Branch, Branch], case: str
) -> None:
    for branch, files in zip(sides, MERGED[case], strict=True):
        branch.put(f"a/{branch.name}", b"beside")
        commit(branch, files)
    merged = table(repo, "dev") | table(repo)
    for files in MERGED[case]:
        merged -= {name for name, body in files.items() if body is None}
    assert repo.preview_merge("dev", "main").unresolved == 0
    repo.merge("dev", "main")
    assert table(repo) == merged


@pytest.mark.parametrize(
    ("name", "conflicts"),
    [
        ("part-00000-1.c000.csv", True),
        ("part-00000", True),
        ("1.orc", True),
        ("1.avro", True),
        ("1.csv", False),
        ("partial1.json", False),
        ("_1.parquet", False),
        (".part-0.parquet", False),
    ],
)
def test_names_tell_files_of_tables_from_other_objects(
    repo: Repository, sides: tuple[Branch, Branch], name: str, conflicts: bool
) -> None:
    dev, main = sides
    commit(main, {f"o/{name}": b"old"})
    dev.hard_reset("main")
    for branch in sides:
        new = name.replace("1", branch.name).replace("-0", f"-0{len(branch.name)}")
        commit(branch, {f"o/{name}": None, f"o/{new}": b"new"})
    assert repo.preview_merge("dev", "main").unresolved == conflicts


def test_replays_staged_changes_and_selected_paths_obey_the_rule(
    repo: Repository, sides: tuple[Branch, Branch]
) -> None:
    dev, main = sides
    commit(dev, {**OLD, "day=1/s.parquet": b"s"})
    commit(main, {**OLD, "day=1/d.parquet": b"d"})
    own = main.head
    for verb in (
        lambda **more: main.cherry_pick("dev", **more),
        lambda **more: dev.rebase("main", **more),
        lambda **more: repo.merge("dev", "main", paths=[f"{TABLE}/day=1/"], **more),
        lambda **more: repo.merge("dev", "main", paths=[f"{TABLE}/day=1/s.parquet"], **more),
        lambda **more: repo.merge("dev", "main", squash=True, **more),
    ):
        with pytest.raises(MergeConflictError, match="both sides removed files of the partition"):
            verb()
    with pytest.raises(MergeConflictError, match="both sides removed"):
        # It would take the unselected files, too.
        repo.merge("dev", "main", "source-wins", paths=[f"{TABLE}/day=1/s.parquet"])
    main.cherry_pick("dev", strategy="source-wins")
    assert table(repo) == DAY_2 | {"day=1/s.parquet"}
    with pytest.raises(MergeConflictError, match="both sides removed"):
        main.revert(own.id)
    main.revert(own.id, strategy="source-wins")
    assert table(repo) == DAY_2 | set(OLD)

    commit(main, {"day=2/f0.parquet": None, "day=2/x.parquet": b"x"})
    dev.hard_reset("main~1")
    commit(dev, {"day=2/f1.parquet": None, "day=2/s.parquet": b"s"})
    main.delete(f"{TABLE}/day=2/f1.parquet")
    main.put(f"{TABLE}/day=2/staged.parquet", b"staged")
    with pytest.raises(DirtyBranchError):
        repo.merge("dev", "main")
    assert repo.preview_merge("dev", "main").unresolved == 0


def test_folders_of_logs_are_left_to_their_logs(
    repo: Repository, sides: tuple[Branch, Branch]
) -> None:
    dev, main = sides
    main.put(f"{TABLE}/metadata/v1.metadata.json", b"{}")
    main.commit("a log")
    dev.hard_reset("main")
    commit(dev, {**OLD, "day=1/s.parquet": b"s"})
    commit(main, {**OLD, "day=1/d.parquet": b"d"})
    assert repo.preview_merge("dev", "main").unresolved == 0


def test_criss_crosses_lose_no_side(repo: Repository, sides: tuple[Branch, Branch]) -> None:
    dev, main = sides
    commit(dev, {**OLD, "day=1/s.parquet": b"s"})
    commit(main, {**OLD, "day=1/d.parquet": b"d"})
    theirs, ours = dev.head.id, main.head.id
    repo.merge(ours, "dev", "dest-wins")
    repo.merge(theirs, "main", "dest-wins")
    with pytest.raises(MergeConflictError, match="day=1"):
        repo.merge("dev", "main")
    repo.merge("dev", "main", "source-wins")
    assert table(repo) == DAY_2 | {"day=1/s.parquet"}


def test_what_is_read_follows_the_changes_of_both_sides(tmp_path: Path) -> None:
    lake = memory_lake()
    repo = lake.create_repository("lake", str(tmp_path), range_records=2)
    main = repo.branch("main")
    commit(main, {f"day={day}/f{n}.parquet": b"f" for day in range(40) for n in range(5)})
    dev = repo.create_branch("dev", "main")

    def ranges_read() -> int:
        with recorded_reads() as names:
            lake.repository("lake").preview_merge("dev", "main", schema_check=False)
        return len({*names})

    commit(dev, {f"day={day}/s.parquet": b"s" for day in range(0, 40, 2)})
    commit(main, {f"day={day}/d.parquet": b"d" for day in range(1, 40, 2)})
    appended = ranges_read()
    gone = {f"day=7/f{number}.parquet": None for number in range(5)}
    commit(dev, gone)
    commit(main, gone)
    assert ranges_read() > appended  # All changes to this table.


PLACES = ("", "t/", "t/p=1/", "t/p=2/", "t/sub/", "t/sub/p=1/q=1/", "u/", "v/p=1/")
NAMES = tuple(
    f"{place}{name}" for place in PLACES for name in ("a.parquet", "b.parquet", "part-0", "c")
)


def is_table(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".parquet") or name.startswith("part-0")


def table_of(path: str) -> str:
    folders = path.split("/")[:-1]
    while folders and "=" in folders[-1]:
        folders.pop()
    return "".join(f"{each}/" for each in folders)


Tree = dict[str, bytes]


def conflicting(base: Tree, source: Tree, dest: Tree) -> set[str]:
    """Return the folders, or whole tables, that both sides replaced."""
    trees = (base, source, dest)
    values = {key: [each.get(key) for each in trees] for key in {*base, *source, *dest}}
    files = {key: each for key, each in values.items() if is_table(key)}
    gone = {k for k, (b, s, d) in files.items() if b and b not in (s, d) and not (s and s == d)}
    new = [
        {k for k, (b, s, d) in files.items() if s and s != b and d == b},
        {k for k, (b, s, d) in files.items() if d and d != b and s == b},
    ]
    found = set()
    for table in {table_of(each) for each in gone}:
        removed = {each.rpartition("/")[0] for each in gone if table_of(each) == table}
        added = [[each for each in keys if table_of(each) == table] for keys in new]
        for keys, tree in zip(added, (source, dest), strict=True):
            kept = any(base[k] == tree.get(k) for k in base if is_table(k) and table_of(k) == table)
            places = removed | {each.rpartition("/")[0] for each in keys}
            if keys and not kept and len(places) > 1:
                found.add(table)
        if table not in found:
            found |= {f"{each}/" if each else "" for each in removed} & {
                each[: each.rfind("/") + 1] for keys in added for each in keys
            }
    return found


@pytest.mark.system
def test_random_trees_agree_with_plain_dicts(tmp_path: Path) -> None:
    lake, randomness = memory_lake(), random.Random(7)
    outcomes = Counter[bool]()
    for trial in range(120):
        repo = lake.create_repository(
            f"lake-{trial}", str(tmp_path / str(trial)), range_records=randomness.choice([1, 2, 9])
        )
        main = repo.branch("main")
        keys = randomness.sample(NAMES, randomness.randint(3, len(NAMES)))
        base = {key: b"0" for key in keys if randomness.random() < 0.6}
        put_all(main, {"z": b"0", **base})
        main.commit("base")
        dev = repo.create_branch("dev", "main")
        trees = []
        for branch in (dev, main):
            rate = randomness.choice([0.2, 0.5])
            tree = dict(base)
            for key in keys:
                if randomness.random() < rate:
                    tree.pop(key, None)
                    if randomness.random() < 0.5:
                        tree[key] = randomness.choice([b"1", b"2", branch.name.encode()])
            trees.append(tree)
            put_all(branch, {key: tree.get(key) for key in {*base, *tree}})
            branch.commit("change", allow_empty=True)
        source, dest = trees
        folders = conflicting(base, source, dest)
        outcomes[bool(folders)] += 1
        contested = {
            key
            for key in {*base, *source, *dest}
            if len({base.get(key), source.get(key), dest.get(key)}) == 3
        }
        if source == base:
            continue
        # New files of different layouts are another conflict.
        preview = repo.preview_merge("dev", "main", schema_check=False)
        assert preview.unresolved == len(folders) + len(contested), (base, source, dest)
        winner = randomness.choice(["source-wins", "dest-wins"])
        taken = source if winner == "source-wins" else dest
        expected = {"z": b"0"}
        for key in {*base, *source, *dest}:
            of_folder = {table_of(key), key[: key.rfind("/") + 1]} & folders and is_table(key)
            one = source.get(key) if dest.get(key) == base.get(key) else dest.get(key)
            end = taken.get(key) if of_folder or key in contested else one
            if end is not None:
                expected[key] = end
        repo.merge("dev", "main", winner, schema_check=False)
        assert contents(repo, "main") == expected, (base, source, dest, winner)
    assert min(outcomes.values()) > 20
