"""A purge in a bucket."""

from __future__ import annotations

import pytest

from sparklake import Lake
from sparklake.errors import PurgedError
from sparklake.testing.lakes import commit_all, contents
from tests.support.s3_fixtures import Bucket


def test_bytes_go_from_a_bucket(small_lake: Lake, bucket: Bucket) -> None:
    repo = small_lake.create_repository("lake", f"s3://{bucket.name}/lake", range_records=2)
    main = repo.branch("main")
    commit_all(main, {"users/1": b"one", "users/2": b"two", "kept": b"kept"}, "first")
    made = repo.purge(["users/"], commit=True)
    assert made.counts.addresses == 2
    assert len(bucket.objects("lake/data/")) == 1
    assert contents(repo, "main") == {"kept": b"kept"}
    with pytest.raises(PurgedError):
        repo.read_bytes("main~1", "users/1")
    names = [key.split("/")[4] for key in bucket.objects(f"lake/_sparklake/purges/{made.id}/")]
    assert sorted(names) == ["receipt", "summary.json"]
