"""Times out of the years that datetimes have: refused where they enter, shown where they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from sparklake import Branch, Lake, MergeConflictError, Repository
from sparklake.cli.text import date
from sparklake.documents import commit_document, object_document
from sparklake.errors import InvalidImportError, InvalidRowsError
from sparklake.fs.listing import file_info
from sparklake.graveler.entries import Entry, record_entry
from sparklake.graveler.times import FIRST_SECOND, LAST_MICROSECOND, LAST_SECOND, SECOND
from sparklake.testing.lakes import commit_all, memory_lake
from sparklake.verbs.history.graph import history_graph
from tests.support.foreign import foreign_record, restored_tree

NEVER = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
"""What many programs write for no end."""
GO_ZERO = datetime(1, 1, 1, tzinfo=timezone.utc)
TIMES = {
    "2300": datetime(2300, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc),
    "never": NEVER,
    "zero": GO_ZERO,
}
FOREIGN = {
    "a-2300": (10_413_792_000 * SECOND + 1, datetime(2300, 1, 1, tzinfo=timezone.utc)),
    "b-millis": (1_700_000_000_000 * SECOND, NEVER),
    "c-micros": (1_700_000_000_000_000 * SECOND, NEVER),
    "d-most": (((1 << 63) - 1) * SECOND, NEVER),
    "e-zero": (FIRST_SECOND * SECOND, GO_ZERO),
    "f-before": ((FIRST_SECOND - 1) * SECOND, GO_ZERO),
    "g-least": (-(1 << 63) * SECOND, GO_ZERO),
}


def nanoseconds(moment: datetime) -> int:
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (moment - epoch) // timedelta(microseconds=1) * 1000


def rows(times: dict[str, datetime], *, labelled: bool) -> pa.Table:
    """Return rows to stage, with metadata where they are to be encoded one by one."""
    columns: dict[str, Any] = {
        "path": pa.array(times),
        "size": pa.array([1] * len(times)),
        "checksum": pa.array([f"c{name}" for name in times]),
        "address": pa.array([f"s3://elsewhere/{name}" for name in times]),
        "mtime": pa.array(list(times.values()), pa.timestamp("us", "UTC")),
    }
    if labelled:
        kind = pa.map_(pa.string(), pa.string())
        columns["metadata"] = pa.array([[("k", "v")]] * len(times), kind)
    return pa.table(columns)


# --- what enters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("labelled", [False, True])
def test_a_staged_time_of_any_year_survives(main: Branch, repo: Repository, labelled: bool) -> None:
    main.stage(rows(TIMES, labelled=labelled))
    for ref in ("main$", "main"):
        assert {each.path: each.mtime for each in repo.objects(ref)} == {
            path: nanoseconds(moment) for path, moment in TIMES.items()
        }
        table = repo.objects(ref).to_arrow()
        assert dict(zip(table["path"].to_pylist(), table["mtime"].to_pylist(), strict=True)) == (
            TIMES
        )
        if ref == "main$":
            main.commit("far")
    assert [repo.stat("main", path).mtime for path in TIMES] == [
        nanoseconds(each) for each in TIMES.values()
    ]


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize(
    ("unit", "count"),
    [
        ("s", LAST_SECOND + 1),
        ("s", FIRST_SECOND - 1),
        ("s", 1 << 62),
        ("ms", -(1 << 62)),
        ("us", LAST_MICROSECOND + 1),
        ("us", -(1 << 62)),
    ],
)
def test_a_time_that_no_record_holds_is_refused(
    main: Branch, repo: Repository, unit: str, count: int, labelled: bool
) -> None:
    times = pa.array([count, 0], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    table = rows({"bad": NEVER, "good": NEVER}, labelled=labelled)
    table = table.set_column(4, "mtime", times)
    with pytest.raises(InvalidRowsError, match=r"mtime of 'bad' is outside the years 1 to 9999"):
        main.stage(table)
    assert list(repo.objects("main$")) == []
    with pytest.raises(InvalidImportError) as raised:
        main.import_objects(table)
    assert raised.value.counts == {"invalid_mtime": 1}
    assert list(repo.objects("main")) == []


def test_a_time_of_any_year_is_imported(main: Branch, repo: Repository) -> None:
    main.import_objects(rows(TIMES, labelled=False), replace=True)
    assert {each.path: each.mtime for each in repo.objects("main")} == {
        path: nanoseconds(moment) for path, moment in TIMES.items()
    }


@pytest.mark.parametrize("labelled", [False, True])
def test_the_newest_wins_in_any_year(main: Branch, repo: Repository, labelled: bool) -> None:
    commit_all(main, {"k": b"0"}, "base")
    repo.create_branch("dev", "main")
    for branch, moment in (("dev", NEVER), ("main", datetime(2024, 1, 1, tzinfo=timezone.utc))):
        table = rows({"k": moment}, labelled=labelled)
        checksum = pa.array([branch])
        repo.branch(branch).stage(table.set_column(2, "checksum", checksum))
        repo.branch(branch).commit("change")
    repo.merge("dev", "main", strategy="newest-wins")
    assert repo.stat("main", "k").checksum == "dev"


def test_what_put_returns_is_what_is_listed(main: Branch, repo: Repository) -> None:
    for number in range(20):
        made = main.put(f"k{number}", b"1")
        assert made.mtime % 1000 == 0
        assert repo.stat("main$", made.path) == made
    assert [each.mtime % 1000 for each in repo.objects("main$")] == [0] * 20


# --- what others have written ---------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["plain", "labelled"])
def foreign(request: pytest.FixtureRequest, folder: Path) -> Repository:
    """Is a repository of lakeFS whose times are out of all bounds; its objects are there."""
    root = folder / "ns"
    (root / "data").mkdir(parents=True)
    labels = {"k": "v"} if request.param else {}
    records = []
    for path, (mtime, _) in FOREIGN.items():
        (root / "data" / path).write_bytes(b"1")
        digest = "c4ca4238a0b923820dcc509a6f75849b"
        records.append(foreign_record(path, Entry(f"data/{path}", 1, digest, mtime, labels)))
    return restored_tree(memory_lake(), root, records, {2, 4}, date=1 << 40)


def shown(found: Iterator[Any]) -> dict[str, datetime]:
    return {each["path"]: each["mtime"] for each in found}


EXPECTED = {path: moment for path, (_, moment) in FOREIGN.items()}


def test_odd_times_are_listed(foreign: Repository) -> None:
    objects = foreign.objects("main")
    assert shown(iter(objects.to_arrow().to_pylist())) == EXPECTED
    assert {each.path: each.mtime for each in objects} == {
        path: nanoseconds(moment) for path, moment in EXPECTED.items()
    }
    assert list(objects) == [foreign.stat("main", path) for path in FOREIGN]
    assert list(objects) == list(foreign.folder("main"))
    assert "9999-12-31 23:59:59" in objects._repr_html_()
    for each in objects:
        assert json.dumps(object_document(each))
        assert file_info(each.path, each)["mtime"] == EXPECTED[each.path]
        assert date(each.mtime // SECOND)[:4] == f"{EXPECTED[each.path].year:04}"


def test_odd_dates_of_commits_are_shown(foreign: Repository) -> None:
    commit = foreign.resolve("main")
    assert commit.creation_date == 1 << 40
    assert commit_document(commit)["creation_date"] == 1 << 40
    last = NEVER.replace(microsecond=0)
    assert foreign.log("main").to_arrow()["creation_date"].to_pylist()[0] == last
    assert set(foreign.blame("main").to_arrow()["creation_date"].to_pylist()) == {last}
    assert "9999-12-31" in foreign.log("main")._repr_html_()
    assert "9999-12-31" in commit._repr_html_()
    assert history_graph(foreign.log("main"), {}).nodes[0].details == "9999-12-31 23:59  ann"
    assert foreign.show("main").added == len(FOREIGN)
    assert [each.id for each in foreign.log("main", since=last)] == [commit.id]
    assert commit.id not in [each.id for each in foreign.log("main", until=NEVER)]


def test_odd_times_are_diffed_committed_and_merged(foreign: Repository) -> None:
    assert {each.path for each in foreign.diff("main~1", "main")} == set(FOREIGN)
    foreign.create_branch("dev", "main")
    commit_all(foreign.branch("dev"), {"new": b"1"}, "dev")
    commit_all(foreign.branch("main"), {"other": b"1"}, "main")
    foreign.merge("dev", "main")
    main = foreign.branch("main")
    merged = foreign._context.trees.get(foreign.resolve("main").meta_range_id).ranges
    for path, (mtime, _) in FOREIGN.items():
        stored = foreign._context.open_ranges.lookup(merged, path.encode())
        assert stored is not None
        assert record_entry((path.encode(), stored)).mtime == mtime
    main.copy("d-most", "copy")
    assert foreign.stat("main$", "copy").mtime == nanoseconds(NEVER)
    main.delete("d-most")
    main.commit("gone")
    main.restore("dev", ["d-most"])
    main.stage(foreign.objects("dev").to_arrow().slice(0, 3))
    main.commit("back")
    assert foreign.stat("main", "b-millis").mtime == nanoseconds(NEVER)


def test_the_newest_of_odd_times_wins(foreign: Repository) -> None:
    foreign.create_branch("dev", "main")
    commit_all(foreign.branch("dev"), {"b-millis": b"22", "e-zero": b"22"}, "dev")
    main = foreign.branch("main")
    table = rows({"b-millis": NEVER, "e-zero": GO_ZERO}, labelled=False)
    main.stage(table)
    main.commit("main")
    foreign.merge("dev", "main", strategy="newest-wins")
    assert foreign.stat("main", "b-millis").size == 1
    assert foreign.stat("main", "e-zero").size == 2


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_odd_times_are_exported(foreign: Repository, folder: Path, form: str) -> None:
    to = folder / "out"
    made = foreign.export("main", str(to), manifest_format=form)
    assert (made.added, made.size) == (len(FOREIGN), len(FOREIGN))
    files = list(to.rglob(f"*.{form}"))
    assert files
    found: list[dict[str, Any]] = []
    for each in files:
        if form == "parquet":
            found += parquet.read_table(each).to_pylist()
        elif form == "csv":
            found += csv.read_csv(each).to_pylist()
        else:
            found += map(json.loads, each.read_text().splitlines())
    assert {each["path"]: f"{each['mtime']}"[:4] for each in found} == {
        path: f"{moment.year:04}" for path, moment in EXPECTED.items()
    }


def test_odd_times_are_collected_and_purged(foreign: Repository) -> None:
    main = foreign.branch("main")
    assert foreign.collect_garbage(grace=timedelta()).run.objects == 0
    for path in FOREIGN:
        main.delete(path)
    main.put("new", b"1")
    main.commit("gone")
    done = foreign.purge(["*-*"], "odd")
    assert done.counts.addresses == len(FOREIGN)
    assert foreign.collect_garbage(grace=timedelta()).run.objects == 0
    receipt = Path(foreign.receipt(done.id).removeprefix("file://"))
    assert sum(parquet.read_table(each).num_rows for each in receipt.glob("*")) == len(FOREIGN)


def test_two_times_past_all_years_are_no_decision(small_lake: Lake, folder: Path) -> None:
    records = [foreign_record("k", Entry("data/k", 1, "c", 1_700_000_000_000 * SECOND))]
    repo = restored_tree(small_lake, folder / "ns", records)
    repo.create_branch("dev", "main")
    repo.branch("dev").stage(rows({"k": NEVER}, labelled=False))
    repo.branch("dev").commit("dev")
    main = repo.branch("main")
    table = rows({"k": NEVER}, labelled=False)
    main.stage(table.set_column(2, "checksum", pa.array(["other"])))
    main.commit("main")
    with pytest.raises(MergeConflictError):
        repo.merge("dev", "main", strategy="newest-wins")
    assert record_entry(records[0]).mtime == 1_700_000_000_000 * SECOND
