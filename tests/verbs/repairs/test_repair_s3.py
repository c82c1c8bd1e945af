"""Repairs of a repository in a bucket, from itself and from a copy in another prefix."""

from __future__ import annotations

import pytest

from sparklake import Lake, Repository
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.testing.lakes import commit_all, contents
from sparklake.verbs.repairs.steps import RepairAction
from tests.support.s3_fixtures import Bucket


@pytest.fixture
def repo(small_lake: Lake, bucket: Bucket) -> Repository:
    bucket.put({f"source/{number}": b"equal %d" % number for number in range(3)})
    made = small_lake.create_repository("lake", f"s3://{bucket.name}/lake", range_records=4)
    main = made.branch("main")
    main.import_objects(f"s3://{bucket.name}/source", "in/")
    own = {f"own/{number}": b"equal %d" % (number % 3) for number in range(6)}
    commit_all(main, {**own, **{f"k/{number}": b"first" for number in range(9)}}, "first")
    commit_all(main, {f"k/{number}": b"second" for number in (1, 5)}, "second")
    return made


def _key(repo: Repository, bucket: Bucket, path: str) -> str:
    return repo.stat("main", path).address.removeprefix(f"s3://{bucket.name}/")


def test_what_a_bucket_has_lost_is_restored_from_it(repo: Repository, bucket: Bucket) -> None:
    before = {ref: contents(repo, ref) for ref in ("main", "main~1")}
    bucket.delete(_key(repo, bucket, "own/1"))
    changed = _key(repo, bucket, "own/2")
    bucket.put({changed: b"another"})
    bucket.delete(_key(repo, bucket, "in/0"))
    report = repo.repair("content")
    assert report.check.is_healthy, report
    assert {each.step.action for each in report.results} == {
        RepairAction.COPY_OBJECT,
        RepairAction.REPLACE_ADDRESS,
    }
    assert {ref: contents(repo, ref) for ref in before} == before
    kept = bucket.objects("lake/_sparklake/repairs/")
    name = changed.removeprefix("lake/")
    (copy,) = (each for each in kept if each.endswith(f"/{name}"))
    assert bucket.get(copy) == b"another"
    assert repo.repair("content").results == ()


@pytest.mark.system
def test_a_copy_in_another_prefix_restores_tables_and_objects(
    repo: Repository, bucket: Bucket
) -> None:
    before = {ref: contents(repo, ref) for ref in ("main", "main~1")}
    for key in bucket.objects("lake/"):
        bucket.put({f"backup/{key.removeprefix('lake/')}": bucket.get(key)})
    tree = repo.tree("main")
    bucket.delete(f"lake/{tree_file_key(tree.id)}")
    bucket.put({f"lake/{tree_file_key(tree.ranges[0].id)}": b"no table"})
    for key in list(bucket.objects("lake/data/")):
        bucket.delete(key)
    report = repo.repair("content", sources=[f"s3://{bucket.name}/backup"])
    assert report.check.is_healthy, report
    assert {each.step.action for each in report.results} == {
        RepairAction.RESTORE_TREE_FILE,
        RepairAction.COPY_OBJECT,
    }
    assert {ref: contents(repo, ref) for ref in before} == before
