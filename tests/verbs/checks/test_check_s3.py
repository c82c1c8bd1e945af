"""Checks of a repository in a bucket, with imports from another prefix."""

from __future__ import annotations

import pytest

from sparklake import Lake
from sparklake.rows.findings import FindingKind
from sparklake.testing.lakes import commit_all
from tests.support.s3_fixtures import Bucket


@pytest.mark.system
def test_faults_in_a_bucket_are_found(small_lake: Lake, bucket: Bucket) -> None:
    bucket.put({f"source/{number:03}": b"outside %d" % number for number in range(120)})
    repo = small_lake.create_repository("lake", f"s3://{bucket.name}/lake", range_records=16)
    main = repo.branch("main")
    main.import_objects(f"s3://{bucket.name}/source", "in/")
    commit_all(main, {f"k/{number}": b"inside %d" % number for number in range(10)}, "inside")
    report = repo.check("content")
    assert report.kinds == {}
    assert report.counts.contents == report.counts.objects == 130

    keys = {
        path: repo.stat("main", path).address.removeprefix(f"s3://{bucket.name}/")
        for path in ("k/1", "k/2", "k/3", "in/001", "in/002", "in/003")
    }
    for path in ("k/1", "in/001"):
        bucket._client.delete_object(Bucket=bucket.name, Key=keys[path])
    for path in ("k/2", "in/002"):
        bucket.put({keys[path]: b"of another length"})
    for path in ("k/3", "in/003"):
        bucket.put({keys[path]: b"X" * len(repo.read_bytes("main", path))})
    report = repo.check("content")
    assert {(each.kind, each.first_path) for each in report.findings} == {
        (FindingKind.OBJECT_MISSING, "k/1"),
        (FindingKind.OBJECT_MISSING, "in/001"),
        (FindingKind.OBJECT_SIZE_DIFFERS, "k/2"),
        (FindingKind.OBJECT_SIZE_DIFFERS, "in/002"),
        (FindingKind.OBJECT_CONTENT_DIFFERS, "k/3"),
        (FindingKind.OBJECT_CONTENT_DIFFERS, "in/003"),
    }
    assert len(report.findings) == 6
