"""Leftovers of crashes: a collection removes the old ones, and only these."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from sparklake import Branch, Lake, Repository
from sparklake.namespace.leftovers import remove_leftovers
from sparklake.rows.findings import FindingKind
from sparklake.stores.objects import open_store
from sparklake.stores.objects.temporary import temporary_files
from sparklake.testing.lakes import commit_all, namespace_of
from tests.support.s3_fixtures import Bucket

DAY = 24 * 3600


def leave(root: Path, key: str, age: int) -> Path:
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def left_in(root: Path, age: int) -> Sequence[Path]:
    name = f"{int(time.time()) - age}-{age:032x}-0"
    check = f"_sparklake/checks/open/20260101T000000Z-{age:08x}"
    return [
        leave(root, key, age)
        for key in (
            f".sparklake-tmp/{name}",
            f"_sparklake/gc/20260101T000000Z-0/.sparklake-tmp/{name}",
            f"_sparklake/probe-{age:032x}",
            f"{check}/summary.json",
            f"{check}/parts/ranges-0.result",
        )
    ]


def test_old_leftovers_go_and_young_ones_stay(repo: Repository, main: Branch) -> None:
    commit_all(main, {"a": b"1"}, "one")
    root = namespace_of(repo)
    old, young = left_in(root, 2 * DAY), left_in(root, 3600)
    report = repo.check("refs")
    assert report.kinds == {FindingKind.TEMPORARY_FILE: 8}
    repo.collect_garbage(dry_run=True, grace=timedelta())
    assert all(each.exists() for each in (*old, *young))
    repo.collect_garbage(grace=timedelta())
    assert not any(each.exists() for each in old)
    assert all(each.exists() for each in young)
    assert repo.check("refs").kinds == {FindingKind.TEMPORARY_FILE: 4}


def test_a_longer_grace_period_keeps_more(repo: Repository) -> None:
    old = left_in(namespace_of(repo), 2 * DAY)
    assert remove_leftovers(repo._context.store, timedelta(days=3)) == 0
    assert all(each.exists() for each in old)


def test_reports_of_checks_stay(repo: Repository) -> None:
    report = repo.check("refs")
    folder = Path(report.location.removeprefix("file://"))
    for each in folder.rglob("*"):
        os.utime(each, (1, 1))
    repo.collect_garbage(grace=timedelta())
    assert (folder / "report.json").exists()


def test_incomplete_uploads_of_a_bucket_are_aborted(small_lake: Lake, bucket: Bucket) -> None:
    repo = small_lake.create_repository("lake", f"s3://{bucket.name}/lake")
    client = bucket._client
    for key in ("lake/data/begun", "elsewhere/data/begun"):
        client.create_multipart_upload(Bucket=bucket.name, Key=key)
    report = repo.check("refs")
    assert report.kinds == {FindingKind.TEMPORARY_FILE: 1}
    assert report.leftovers[0].subject.startswith("data/begun?uploadId=")
    # The server of the tests dates all uploads to 2010.
    remove_leftovers(open_store(repo.info.storage_namespace), timedelta(days=36_500))
    assert repo.check("refs").kinds == {FindingKind.TEMPORARY_FILE: 1}
    repo.collect_garbage()
    assert repo.check("refs").kinds == {}
    (other,) = temporary_files(open_store(f"s3://{bucket.name}/elsewhere"))
    assert other.key.startswith("data/begun?")
