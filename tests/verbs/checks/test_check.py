"""Checks of healthy repositories, and the report."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from sparklake import Branch, Repository
from sparklake.errors import InvalidInputError, NotFoundError, StoreUnreachableError
from sparklake.layout import NAMESPACE_MARKER_KEY
from sparklake.rows.findings import FindingKind
from sparklake.testing.lakes import commit_all, namespace_of


def report_folder(location: str) -> Path:
    return Path(location.removeprefix("file://"))


@pytest.mark.both_stores
def test_a_new_repository_is_healthy(repo: Repository) -> None:
    for level in ("refs", "trees", "objects", "content"):
        report = repo.check(level)
        assert (report.kinds, report.exit_code, report.is_healthy) == ({}, 0, True)
        assert report.level.value == level


@pytest.mark.both_stores
def test_a_check_reads_each_table_and_object_once(repo: Repository, main: Branch) -> None:
    commit_all(main, {f"k/{number:03}": b"%d" % number for number in range(60)}, "base")
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"k/030": b"changed"}, "one change")
    dev.put("x", b"staged")
    repo.create_tag("v1", "main")
    repo.dump_refs()
    report = repo.check("content")
    assert report.kinds == {}
    ranges = {
        (each.id, each.count)
        for ref in ("main", "dev@")
        for each in repo._context.tree(repo.resolve(ref)).ranges
    }
    counts = report.counts
    assert counts.commits == 3
    assert counts.tree_files == len(ranges) + 2
    assert counts.records == sum(count for _, count in ranges) + 1
    assert counts.objects == counts.contents == 62


def test_the_report_is_in_the_folder_of_the_check(repo: Repository, main: Branch) -> None:
    commit_all(main, {"a": b"1", "b": b"22"}, "two")
    address = Path(repo.stat("main", "a").address.removeprefix("file://"))
    address.unlink()
    report = repo.check()
    folder = report_folder(report.location)
    checks = namespace_of(repo) / "_sparklake" / "checks"
    assert folder == checks / report.id
    assert list((checks / "open").iterdir()) == []
    written = msgspec.json.decode((folder / "report.json").read_bytes())
    assert written == msgspec.json.decode(msgspec.json.encode(report.document()))
    assert (written["exit_code"], written["kinds"]) == (10, {"object_missing": 1})
    (row,) = parquet.read_table(folder / "findings").to_pylist()
    assert (row["kind"], row["first_path"], row["branches"]) == ("object_missing", "a", ["main"])
    assert row["commits"] == [repo.resolve("main").id]
    files = {each.name for each in folder.rglob("*") if each.is_file()}
    assert {each for each in files if not each.endswith(".parquet")} == {"report.json"}
    assert not [each for each in (folder.parent / "open").rglob("*") if each.is_file()]


def test_a_report_elsewhere_leaves_the_namespace_alone(
    repo: Repository, main: Branch, folder: Path
) -> None:
    commit_all(main, {"a": b"1"}, "one")
    before = {each for each in namespace_of(repo).rglob("*") if each.is_file()}
    report = repo.check(to=str(folder / "reports"))
    assert report_folder(report.location) == folder / "reports" / report.id
    assert {each for each in namespace_of(repo).rglob("*") if each.is_file()} == before


def test_a_sample_reads_a_share(repo: Repository, main: Branch) -> None:
    commit_all(main, {f"k/{number:03}": b"%d" % number for number in range(200)}, "base")
    report = repo.check("content", sample=0.25)
    assert report.is_healthy
    assert report.counts.objects == 200
    assert 10 < report.counts.contents < 120


def test_bad_options_are_refused(repo: Repository) -> None:
    for wrong in ({"level": "all"}, {"level": "content", "sample": 0.0}, {"sample": 0.5}):
        with pytest.raises(InvalidInputError):
            repo.check(**wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        repo.check(resume="20260101T000000Z-00000000")
    with pytest.raises(InvalidInputError, match="is finished"):
        repo.check(resume=repo.check().id)


def test_garbage_is_listed_as_a_leftover(repo: Repository, main: Branch) -> None:
    commit_all(main, {"a": b"1"}, "one")
    main.put("b", b"dropped")
    main.reset()
    report = repo.check()
    assert report.kinds == {FindingKind.OBJECT_YOUNG: 1}
    assert report.is_healthy
    assert report.faults == ()
    assert [each.size for each in report.leftovers] == [7]


@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_check_of_a_disk_that_is_away_writes_nothing(
    repo: Repository, main: Branch, is_mounted: bool
) -> None:
    commit_all(main, {"a": b"1"}, "one")
    root = namespace_of(repo)
    root.rename(root.with_name("away"))
    if is_mounted:
        root.mkdir()
    for verb in (repo.check, repo.repair):
        with pytest.raises(StoreUnreachableError, match=str(root)):
            verb()
    assert root.exists() == is_mounted
    assert not is_mounted or not list(root.iterdir())
    if is_mounted:
        root.rmdir()
    root.with_name("away").rename(root)
    assert repo.check().is_healthy


@pytest.mark.parametrize(("body", "said"), [(None, "missing"), (b"{", "damaged")])
def test_a_lost_mark_is_named_and_written_again(
    repo: Repository, main: Branch, body: bytes | None, said: str
) -> None:
    commit_all(main, {"a": b"1"}, "one")
    mark = namespace_of(repo) / NAMESPACE_MARKER_KEY
    before = mark.read_bytes()
    mark.unlink()
    if body is not None:
        mark.write_bytes(body)
    (finding,) = repo.check().findings
    assert finding.kind is FindingKind.NAMESPACE_MARKER_WRONG
    assert f"{NAMESPACE_MARKER_KEY} is {said}" in finding.detail
    assert repo.repair().check.is_healthy
    assert msgspec.json.decode(mark.read_bytes())["uid"] == msgspec.json.decode(before)["uid"]
