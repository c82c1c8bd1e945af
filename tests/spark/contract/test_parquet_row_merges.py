"""Merges of the rows of Parquet folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sparklake import Lake, Repository
from sparklake.errors import MergeConflictError
from sparklake.strategies import rows
from sparklake.verbs.tables.row_merges import RowMergeCounts
from tests.support.lakes import moved_away

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENGINE = "auto"

TABLE = "tables/x"
SCHEMA = "id int, a int, day string"
Row = tuple[Any, ...]


@pytest.fixture
def repo(
    local_lake: Lake, spark: SparkSession, names: Iterator[str], namespace: Path
) -> Repository:
    return local_lake.create_repository(next(names), str(namespace), range_records=8)


def write(
    repo: Repository,
    branch: str,
    table: Sequence[Row],
    schema: str = SCHEMA,
    mode: str = "overwrite",
    **options: Any,
) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    frame = spark.createDataFrame(list(table), schema).coalesce(1)
    repo.branch(branch).write(frame, TABLE, mode=mode, **options)
    repo.branch(branch).commit("write")


def diverge(repo: Repository, base: Sequence[Row], **options: Any) -> None:
    write(repo, "main", base, **options)
    repo.create_branch("dev", "main")


def content(repo: Repository, ref: str = "main") -> list[Row]:
    frame = repo.read(ref, TABLE).select("id", "a", "day")
    return sorted(tuple(row) for row in frame.collect())


def paths(repo: Repository, ref: str = "main") -> set[str]:
    return {each.path for each in repo.objects(ref, TABLE) if each.path.endswith(".parquet")}


BASE = [(1, 1, "x"), (2, 2, "x"), (3, 3, "y"), (4, 4, "y")]


@pytest.mark.system
def test_overwrites_of_both_sides_merge_by_rows(repo: Repository) -> None:
    diverge(repo, BASE)
    write(repo, "dev", [(1, 10, "x"), (2, 2, "x"), (4, 4, "y"), (5, 5, "y")])
    write(repo, "main", [(1, 1, "x"), (2, 20, "x"), (3, 3, "y"), (4, 4, "y"), (6, 6, "y")])
    rules = {TABLE: rows("id")}
    preview = repo.preview_merge("dev", "main", rules=rules)
    assert preview.row_merges == {
        TABLE: RowMergeCounts(
            added=1, changed=1, removed=1, files=3, bytes=preview.row_merges[TABLE].bytes
        )
    }
    assert preview.row_merges[TABLE].bytes > 0
    assert preview.unresolved == 0
    before = paths(repo)
    commit = repo.merge("dev", "main", rules=rules)
    merged = [(1, 10, "x"), (2, 20, "x"), (4, 4, "y"), (5, 5, "y"), (6, 6, "y")]
    assert content(repo) == merged
    assert not paths(repo) & (before | paths(repo, "dev"))
    assert commit.metadata["sparklake.merge.rows"] == f"{TABLE}: 1 added, 1 changed, 1 removed"
    assert commit.metadata[".lakefs.merge.strategy"] == f"{TABLE}=rows(id); else none"
    # Both directions afterwards, and the way back.
    repo.merge("main", "dev", rules=rules)
    assert content(repo, "dev") == merged
    repo.branch("main").revert(commit.id, parent_number=1)
    assert content(repo) == [(1, 1, "x"), (2, 20, "x"), (3, 3, "y"), (4, 4, "y"), (6, 6, "y")]


def test_conflicting_rows_move_nothing_and_are_rows(repo: Repository) -> None:
    diverge(repo, BASE)
    write(repo, "dev", [(1, 10, "x"), (2, 20, "z"), *BASE[3:]])
    write(repo, "main", [(1, 11, "x"), (2, 21, "x"), *BASE[2:]])
    head = repo.branch("main").head
    with pytest.raises(
        MergeConflictError,
        match="the rows of 'tables/x' cannot be merged: both sides changed 2 rows",
    ) as raised:
        repo.merge("dev", "main", rules={TABLE: rows("id", columns=True)})
    assert repo.branch("main").head == head
    conflicts = raised.value.conflict_rows.orderBy("key").collect()
    assert [tuple(each) for each in conflicts] == [
        (TABLE, '{"id":1}', "a", "1", "10", "11"),
        (TABLE, '{"id":2}', "a", "2", "20", "21"),
    ]
    found = repo.merge_conflicts("dev", "main", TABLE, rows("id", columns=True))
    assert found.count() == 2
    repo.merge("dev", "main", rules={f"{TABLE}/": rows("id", columns=True, then="source-wins")})
    assert content(repo) == [(1, 10, "x"), (2, 20, "z"), (4, 4, "y")]


@pytest.mark.system
def test_files_changed_by_one_side_keep_their_names_and_rows(repo: Repository) -> None:
    options = {"partition_by": ["day"]}
    diverge(repo, [*BASE, (9, 9, "z")], **options)
    write(repo, "main", [(7, 7, "w")], mode="append", **options)
    write(repo, "dev", [(8, 8, "v")], mode="append", **options)
    some = {"mode": "overwrite-partitions", **options}
    write(repo, "dev", [(1, 10, "x"), (2, 2, "x")], **some)
    untouched = {each for each in paths(repo) if "/day=y/" in each or "/day=z/" in each}
    write(repo, "main", [(1, 1, "x")], **some)
    # The first unchanged file has the schema.
    with moved_away(repo, "main", sorted(untouched)[1:]):
        repo.merge("dev", "main", rules={TABLE: "rows(day, id)"})
    assert content(repo) == [
        *((1, 10, "x"), (3, 3, "y"), (4, 4, "y"), (7, 7, "w"), (8, 8, "v"), (9, 9, "z"))
    ]
    assert untouched <= paths(repo)
    assert {each.split("/")[2] for each in paths(repo)} == {f"day={each}" for each in "vwxyz"}


@pytest.mark.system
def test_files_of_both_sides_are_united_if_no_key_is_in_both(repo: Repository) -> None:
    diverge(repo, BASE)
    write(repo, "dev", [(5, 5, "x")], mode="append")
    write(repo, "main", [(6, 6, "x")], mode="append")
    files = paths(repo) | paths(repo, "dev")
    with pytest.raises(MergeConflictError, match="no column 'nothing'"):
        repo.merge("dev", "main", rules={TABLE: "rows(nothing)"})
    assert not repo.preview_merge("dev", "main", rules={TABLE: "rows(id)"}).row_merges
    commit = repo.merge("dev", "main", rules={TABLE: "rows(id)"})
    assert paths(repo) == files
    assert "sparklake.merge.rows" not in commit.metadata


@pytest.mark.system
def test_keys_are_unique_whatever_the_files(repo: Repository) -> None:
    """Appends of both sides, and of one side beside unchanged files."""
    options = {"partition_by": ["day"]}
    diverge(repo, BASE, **options)
    rules = {TABLE: "rows(id)"}
    write(repo, "dev", [(5, 5, "x"), (6, 6, "z")], mode="append", **options)
    write(repo, "main", [(5, 5, "x"), (6, 0, "w")], mode="append", **options)
    assert repo.preview_merge("dev", "main", rules=rules).row_merges[TABLE].conflicts == 1
    with pytest.raises(
        MergeConflictError, match=r"1 row .* such as rows\(id, then=source-wins\);"
    ) as raised:
        repo.merge("dev", "main", rules=rules)
    assert [each.key for each in raised.value.conflict_rows.collect()] == ['{"id":6}']
    # The hint, followed.
    repo.merge("dev", "main", rules={TABLE: "rows(id, then=source-wins)"})
    assert content(repo) == [*BASE, (5, 5, "x"), (6, 6, "z")]
    write(repo, "dev", [(3, 3, "v")], mode="append", **options)
    write(repo, "main", [(7, 7, "w")], mode="append", **options)
    for source, dest, side in (("dev", "main", "source"), ("main", "dev", "dest")):
        why = f"'repeated in {side}', such as " + r'\{"id":3\}'
        with pytest.raises(MergeConflictError, match=why):
            repo.merge(source, dest, rules=rules)
        (preview,) = repo.preview_merge(source, dest, rules=rules).conflicts
        assert "repeated" in str(preview.reason)
    # Another day, another key.
    repo.merge("dev", "main", rules={TABLE: "rows(day, id)"})
    assert content(repo)[2:4] == [(3, 3, "v"), (3, 3, "y")]


@pytest.mark.system
def test_merge_bases_that_disagree_on_a_file(repo: Repository) -> None:
    rules = {TABLE: "rows(id)"}
    diverge(repo, BASE)
    write(repo, "dev", [(1, 10, "x"), *BASE[1:]])
    write(repo, "main", [BASE[0], (2, 20, "x"), *BASE[2:]])
    for name, first, second in (("x", "dev", "main"), ("y", "main", "dev")):
        repo.create_branch(name, first)
        repo.merge(second, name, rules=rules)
    both = [(1, 10, "x"), (2, 20, "x"), *BASE[2:]]
    assert content(repo, "x") == content(repo, "y") == both
    write(repo, "x", [*both[:3], (4, 40, "y")])
    write(repo, "y", [*both[:2], (3, 30, "y"), both[3]])
    with pytest.raises(MergeConflictError):
        repo.merge("x", "y")
    repo.merge("x", "y", rules=rules)
    both = [*both[:2], (3, 30, "y"), (4, 40, "y")]
    assert content(repo, "y") == both
    # The bases disagree on key 1, so nobody knows which side changed it.
    repo.create_branch("z", "x")
    write(repo, "z", [(1, 11, "x"), *both[1:3], (4, 40, "y")])
    write(repo, "main", [BASE[0], (2, 20, "x"), *BASE[2:3], (4, 4, "z")])
    repo.create_branch("w", "main")
    repo.merge("dev", "w", rules=rules)
    with pytest.raises(MergeConflictError, match="then=source-wins") as raised:
        repo.merge("z", "w", rules=rules)
    assert '{"id":1}' in [each.key for each in raised.value.conflict_rows.collect()]


@pytest.mark.system
def test_added_columns_are_null_on_the_other_side(repo: Repository) -> None:
    diverge(repo, BASE)
    write(repo, "dev", [(*row, row[0]) for row in BASE], f"{SCHEMA}, new int")
    write(repo, "main", [*BASE[:3], (4, 5, "y")])
    with pytest.raises(MergeConflictError, match="1 row differently"):
        repo.merge("dev", "main", rules={TABLE: "rows(id)"})
    repo.merge("dev", "main", rules={TABLE: "rows(id, columns=true)"})
    found = repo.read("main", TABLE).select("id", "a", "day", "new").collect()
    assert sorted(map(tuple, found)) == [*((*row, row[0]) for row in BASE[:3]), (4, 5, "y", 4)]


@pytest.mark.system
def test_names_of_columns_follow_sparks_rule_of_case(repo: Repository) -> None:
    diverge(repo, BASE)
    write(repo, "dev", [(1, 10, "x"), *BASE[1:]], "ID int, A int, day string")
    write(repo, "main", [(1, 1, "X"), *BASE[1:3], (5, 5, "y")], "id int, a int, DAY string")
    repo.merge("dev", "main", rules={TABLE: "rows(Id, columns=true, then=newest(A))"})
    assert content(repo) == [(1, 10, "X"), *BASE[1:3], (5, 5, "y")]
    assert repo.read("main", TABLE).columns == ["id", "a", "DAY"]
    write(repo, "dev", [(7, 7, "x")])
    write(repo, "main", [(8, 8, "x")])
    with pytest.raises(MergeConflictError, match="each key column of rows once: id, ID"):
        repo.merge("dev", "main", rules={TABLE: "rows(id, ID)"})


@pytest.mark.parametrize(
    ("rule", "why"),
    [("rows(day)", r"'repeated in base', such as \{\"day\":\"x\"\}"), ("rows(a)", "'null key'")],
)
def test_rows_that_cannot_be_merged_are_a_conflict(repo: Repository, rule: str, why: str) -> None:
    diverge(repo, BASE)
    write(repo, "dev", [(1, 1, "x"), (9, None, "q")])
    write(repo, "main", [(1, 2, "x")])
    head = repo.branch("main").head
    with pytest.raises(MergeConflictError, match=why):
        repo.merge("dev", "main", rules={TABLE: rule})
    assert repo.branch("main").head == head


TAKEN = {f"{TABLE}/**": "dest-wins"}
TEXTS = "id int, a string, day string"


def refused(repo: Repository, why: str, rule: str = "rows(id)", pair: str = "dev main") -> None:
    with pytest.raises(MergeConflictError, match=why):
        repo.merge(*pair.split(), rules={TABLE: rule})


def test_what_refused_keys_say_leads_out(repo: Repository) -> None:
    schema = f"{SCHEMA}, m map<string,int>"
    base = [(*row, None) for row in BASE]
    write(repo, "main", base, schema)
    repo.create_branch("dev", "main")
    write(repo, "dev", [(1, 10, "x", None), *base[1:]], schema)
    write(repo, "main", [base[0], (2, 20, "x", None), *base[2:]], schema)
    for rule, why in {
        "rows": "the table has no key: list its columns, as in rows",
        "rows(x)": "the table has no column 'x': choose from ",
        "rows(id, ID)": "list each key column of rows once",
        "rows(m)": "contains a map<.*choose another column",
        "rows(day)": "day is no key of the rows.* Choose key columns that identify",
    }.items():
        refused(repo, why, rule)
    repo.merge("dev", "main", rules={TABLE: "rows(id)"})
    merged = [(1, 10, "x"), (2, 20, "x"), *BASE[2:]]
    assert content(repo) == merged
    write(repo, "dev", [(1, 10, "x"), *merged])
    write(repo, "main", merged[1:])
    refused(repo, "1 key with 'repeated in source'.* or repair the rows of that side")
    write(repo, "dev", [(1, 10, "x"), *merged[1:3]])
    repo.merge("dev", "main", rules={TABLE: "rows(id)"})
    assert content(repo) == merged[1:3]


def test_what_refused_types_say_leads_out(repo: Repository) -> None:
    texts = [(1, "10", "x"), (2, "2", "x"), (3, "3", "y"), (4, "4", "y")]
    diverge(repo, BASE)
    write(repo, "dev", texts, TEXTS)
    write(repo, "main", [BASE[0], (2, 20, "x"), *BASE[2:]])
    refused(repo, "which does not keep all values. Make the same change on both sides, or take")
    repo.create_branch("taken", "main")
    repo.merge("dev", "taken", rules=TAKEN)
    assert content(repo, "taken") == content(repo)
    write(repo, "main", [(1, 1.5, "x")], "id int, a double, day string")
    refused(repo, "both sides changed a column differently. Give it the same type on both sides")
    write(repo, "main", [*texts[:1], (2, "20", "x"), *texts[2:]], TEXTS)
    repo.merge("dev", "main", rules={TABLE: "rows(id, then=dest-wins)"})
    assert content(repo) == [*texts[:1], (2, "20", "x"), *texts[2:]]


def test_what_a_type_in_some_partitions_says_leads_out(repo: Repository) -> None:
    options = {"partition_by": ["day"]}
    diverge(repo, BASE, **options)
    some = {"mode": "overwrite-partitions", "schema_check": False, **options}
    wide = "id int, a bigint, day string"
    write(repo, "dev", [(1, 10, "x"), (2, 2, "x")], wide, **some)
    write(repo, "main", [(1, 1, "x"), (2, 20, "x")], **some)
    refused(repo, "unchanged files such as .* keep the old ones: rewrite the table on that side")
    write(repo, "dev", [(1, 10, "x"), *BASE[1:]], wide, **options)
    repo.merge("dev", "main", rules={TABLE: "rows(id)"})
    assert content(repo) == [(1, 10, "x"), (2, 20, "x"), *BASE[2:]]


def test_what_merge_bases_with_other_columns_say_leads_out(repo: Repository) -> None:
    diverge(repo, BASE)
    write(repo, "dev", [(1, "1", "x")], TEXTS)
    write(repo, "main", [(1, 10, "x")])
    for name, first, second in (("x", "dev", "main"), ("y", "main", "dev")):
        repo.create_branch(name, first)
        repo.merge(second, name, rules=TAKEN)
    write(repo, "x", [(1, "2", "x")], TEXTS)
    write(repo, "y", [(1, 20, "x")])
    refused(repo, "the merge bases disagree on the columns of .*dest-wins", pair="x y")
    repo.merge("x", "y", rules=TAKEN)
    assert content(repo, "y") == [(1, 20, "x")]


@pytest.mark.system
def test_wrong_number_of_written_rows_stops_a_merge(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparklake.frames.tables import row_merge

    diverge(repo, BASE)
    write(repo, "dev", [(1, 10, "x"), *BASE[1:]])
    write(repo, "main", [(2, 20, "x")])
    head, real = repo.branch("main").head, row_merge.applied
    monkeypatch.setattr(row_merge, "applied", lambda *each: real(*each).limit(1))
    with pytest.raises(MergeConflictError, match="1 rows would be written instead of 2"):
        repo.merge("dev", "main", rules={TABLE: "rows(id, then=source-wins)"})
    assert repo.branch("main").head == head


@pytest.mark.system
def test_rule_with_wildcards_leaves_conflicts_of_folders(repo: Repository) -> None:
    diverge(repo, BASE)
    main, dev = (repo.branch(each) for each in ("main", "dev"))
    name = next(iter(paths(repo)))
    main.put(name, b"one")
    dev.put(name, b"other")
    for each in (main, dev):
        each.commit("change")
    for rules in ({"tables/*/": "rows(id)"}, {"tables/**": "rows(id)"}):
        assert repo.preview_merge("dev", "main", rules=rules).unresolved == 1
        with pytest.raises(MergeConflictError, match=name):
            repo.merge("dev", "main", rules=rules)
