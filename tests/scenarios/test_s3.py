"""The main flow in a bucket, over HTTP, and buckets that are away, closed or not there."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from sparklake import Lake, Repository, SparklakeError
from sparklake.errors import (
    CorruptFileError,
    InvalidDumpError,
    InvalidInputError,
    InvalidUriError,
    MergeConflictError,
    MissingFileError,
    NamespaceInUseError,
    NoChangesError,
    ReadOnlyNamespaceError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.stores.objects.s3 import store as s3
from sparklake.testing.lakes import commit_all, contents, memory_lake
from sparklake.testing.s3_server import aws_client
from tests.support.lakes import paths, refs_of, stage_sizes
from tests.support.s3_fixtures import Bucket
from tests.support.s3_server import access_control, recorded_requests

RAW = {"raw/a.csv": b"a", "raw/deep/b c.csv": b"bb", "raw/deep/é": b"ccc", "raw/x=1/p": b"dddd"}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def bucket(bucket: Bucket) -> Bucket:
    bucket.put(RAW)
    return bucket


@pytest.fixture
def repo(small_lake: Lake, bucket: Bucket, scratch: Path) -> Repository:
    return small_lake.create_repository("lake", f"s3://{bucket.name}/lakes/one", range_records=2)


def rows(diff: object) -> list[tuple[str, str]]:
    return [(each.type.value, each.path) for each in diff]  # type: ignore[attr-defined]


def sign_in(
    statements: list[dict[str, Any]], env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use the key of a new user with these permissions."""
    iam, user = aws_client("iam", env), f"user-{uuid4().hex}"
    iam.create_user(UserName=user)
    if statements:
        policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
        iam.put_user_policy(UserName=user, PolicyName="lake", PolicyDocument=policy)
    key = iam.create_access_key(UserName=user)["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])


def test_garbage_goes_from_a_bucket(repo: Repository, bucket: Bucket) -> None:
    main = repo.branch("main")
    main.import_objects(f"s3://{bucket.name}/raw", "raw")
    commit_all(main, {"a": b"1", "b": b"2"}, "first")
    main.put("a", b"3")
    main.reset()
    folder = "lakes/one/data"
    bucket.put({f"{folder}/~failed/part 0": b"4", f"{folder}/.x": b"5", "lakes/one/mine": b"6"})
    before = bucket.objects()
    made = repo.collect_garbage(grace=timedelta())
    # What lies elsewhere is nobody's to delete, and of what is left here all is named.
    gone = before.keys() - bucket.objects().keys()
    assert len(gone) == made.run.objects == 3
    assert gone == {f"lakes/one/{each.path}" for each in repo.garbage(made.run.id)}
    assert contents(repo, "main") == {**RAW, "a": b"1", "b": b"2"}
    assert repo.collect_garbage(grace=timedelta()).run.objects == 0


def test_the_main_flow(repo: Repository, bucket: Bucket) -> None:
    main = repo.branch("main")
    assert list(bucket.objects("lakes/")) == ["lakes/one/_lakefs/dummy"]

    main.import_objects(f"s3://{bucket.name}/raw", "raw")
    assert contents(repo, "main") == RAW
    etags = bucket.objects("raw/")
    for each in repo.objects("main"):
        assert each.address == f"s3://{bucket.name}/{each.path}"
        assert each.checksum == etags[each.path].strip('"')
    assert not bucket.objects("lakes/one/data/")
    assert etags == bucket.objects("raw/")

    repo.create_tag("v1", "main")
    dev = repo.create_branch("dev", "main")
    theirs = commit_all(dev, {"raw/a.csv": b"theirs", "raw/x=1/p": None, "new": b"new"}, "theirs")
    assert len(bucket.objects("lakes/one/data/")) == 2
    ours = commit_all(main, {"raw/a.csv": b"ours", "raw/deep/é": b"ours"}, "ours")
    assert rows(repo.diff("v1", "dev")) == [
        ("added", "new"),
        ("changed", "raw/a.csv"),
        ("removed", "raw/x=1/p"),
    ]

    before = bucket.objects()
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main")
    assert rows(raised.value.conflicts) == [("conflict", "raw/a.csv")]
    assert repo.resolve("main") == ours
    assert bucket.objects() == before

    merged = repo.merge("dev", "main", "source-wins")
    assert merged.parents == (ours.id, theirs.id)
    after = {**RAW, "raw/a.csv": b"theirs", "raw/deep/é": b"ours", "new": b"new"}
    del after["raw/x=1/p"]
    assert contents(repo, "main") == after
    other = repo.create_branch("other", ours.id)
    repo.merge("dev", "other", "dest-wins")
    assert contents(repo, "other") == {**after, "raw/a.csv": b"ours"}
    assert contents(repo, "v1") == RAW
    assert contents(repo, "main~1") == {**RAW, "raw/a.csv": b"ours", "raw/deep/é": b"ours"}
    assert contents(repo, "main^2") == contents(repo, "dev")
    assert repo.read_bytes("main~2", "raw/a.csv") == b"a"
    assert next(each.id for each in repo.log("main")) == merged.id
    assert not other.is_dirty


def test_a_lookup_gets_each_range_once_and_several_at_a_time(repo: Repository) -> None:
    sizes = {f"k/{number:03}": number for number in range(120)}
    stage_sizes(repo.branch("main"), sizes)
    repo.branch("main").commit("m")
    chosen = repo.tree("main").ranges[:40]
    assert len(chosen) == 40
    asked = [each.min_key.decode() for each in reversed(chosen)]
    # Neither of the first two returns before both have begun.
    together, waiting = Barrier(2), iter(range(2))

    def before(method: str) -> None:
        if method == "GET" and next(waiting, None) is not None:
            together.wait(timeout=60)

    view = repo.at("main")
    with recorded_requests(before) as requests:
        found = view.lookup([*asked, *asked, "k", "z"])
    assert found.column("size").to_pylist() == [*map(sizes.get, asked * 2), None, None]
    assert sorted(requests) == sorted(("GET", each.id) for each in chosen)
    with recorded_requests() as requests:
        view.lookup(asked)
        assert [view.stat(path).size for path in asked] == [*map(sizes.get, asked)]
    assert requests == []


def test_a_level_gets_each_range_once(repo: Repository) -> None:
    stage_sizes(repo.branch("main"), {f"k/{number:03}": 1 for number in range(120)})
    repo.branch("main").commit("m")
    with recorded_requests() as requests:
        assert len(list(repo.folder("main", "k/"))) == 120
    assert sorted(requests) == sorted(("GET", each.id) for each in repo.tree("main").ranges)
    with recorded_requests() as requests:
        assert [each.path for each in repo.folder("main")] == ["k/"]
    assert requests == []


def test_an_import_again(repo: Repository, bucket: Bucket) -> None:
    main = repo.branch("main")
    main.import_objects(f"s3a://{bucket.name}/raw/", "raw")
    before = bucket.objects()
    with pytest.raises(NoChangesError):
        main.import_objects(f"s3://{bucket.name}/raw", "raw")
    assert bucket.objects() == before
    bucket.put({"raw/a.csv": b"changed", "raw/z": b"z"})
    bucket.delete("raw/x=1/p")
    main.import_objects(f"s3://{bucket.name}/raw", "raw")
    assert rows(repo.diff("main~1", "main")) == [
        ("changed", "raw/a.csv"),
        ("removed", "raw/x=1/p"),
        ("added", "raw/z"),
    ]


def test_the_same_tree_in_a_bucket_and_a_directory(
    repo: Repository, small_lake: Lake, folder: Path
) -> None:
    objects: dict[str, bytes | None] = {f"k/{number}": b"%d" % number for number in range(20)}
    local = small_lake.create_repository("local", str(folder / "local"), range_records=2)
    made = [commit_all(each.branch("main"), objects, "m").meta_range_id for each in (repo, local)]
    assert made[0] == made[1]


def refused(lake: Lake, bucket: Bucket, error: type[SparklakeError], words: str, verb: Any) -> None:
    """Expect an error of exactly this class, and that neither refs nor bucket have changed."""
    before = [refs_of(each) for each in lake.repositories()], bucket.objects()
    with pytest.raises(error, match=words) as raised:
        verb()
    assert type(raised.value) is error
    assert ([refs_of(each) for each in lake.repositories()], bucket.objects()) == before


@pytest.mark.parametrize(
    "place", ["lakes/one", "lakes/one/", "lakes/one/data/x", "lakes", "", "lakes/one/_lakefs"]
)
def test_a_namespace_in_use(small_lake: Lake, repo: Repository, bucket: Bucket, place: str) -> None:
    refused(
        small_lake,
        bucket,
        NamespaceInUseError,
        "choose an|choose a location",
        lambda: small_lake.create_repository("other", f"s3://{bucket.name}/{place}"),
    )
    other = memory_lake()
    if place.rstrip("/") == "lakes/one":
        refused(
            other,
            bucket,
            NamespaceInUseError,
            "choose an unused one",
            lambda: other.create_repository("lake", f"s3a://{bucket.name}/{place}"),
        )


def test_bad_uris(small_lake: Lake, repo: Repository, bucket: Bucket) -> None:
    for uri, words in (
        ("s3://", "does not name a bucket"),
        ("s3://a/b", "does not name a bucket"),
        (f"s3:/{bucket.name}/x", "does not name a bucket"),
        (f"s3://{bucket.name}/a//b", "two slashes"),
        (f"s3://{bucket.name}/a/../b", r"'\.\.'"),
        (f"s3://key:secret@{bucket.name}/x", "credentials"),
    ):
        refused(
            small_lake,
            bucket,
            InvalidUriError,
            words,
            lambda uri=uri: small_lake.create_repository("other", uri),
        )
        refused(
            small_lake,
            bucket,
            InvalidUriError,
            words,
            lambda uri=uri: repo.branch("main").import_objects(uri),
        )


@pytest.mark.parametrize("source", ["lakes/one", "lakes", "", "lakes/one/data"])
def test_an_import_of_its_own_namespace(
    small_lake: Lake, repo: Repository, bucket: Bucket, source: str
) -> None:
    refused(
        small_lake,
        bucket,
        InvalidInputError,
        "overlaps the storage namespace",
        lambda: repo.branch("main").import_objects(f"s3a://{bucket.name}/{source}"),
    )


def test_an_import_of_a_neighbour(repo: Repository, bucket: Bucket) -> None:
    """A prefix that only begins alike is another place, for the namespace and for the source."""
    bucket.put({"lakes/one-more/k": b"k", "lakes/one-more-yet/k": b"not this one"})
    repo.branch("main").import_objects(f"s3://{bucket.name}/lakes/one-more", replace=True)
    assert contents(repo, "main") == {"k": b"k"}


def test_an_import_of_nothing(small_lake: Lake, repo: Repository, bucket: Bucket) -> None:
    refused(
        small_lake,
        bucket,
        InvalidInputError,
        "nothing/here contains no objects",
        lambda: repo.branch("main").import_objects(f"s3://{bucket.name}/nothing/here"),
    )


def test_objects_that_are_gone_or_overwritten(
    small_lake: Lake, repo: Repository, bucket: Bucket
) -> None:
    repo.branch("main").import_objects(f"s3://{bucket.name}/raw", "raw")
    bucket.delete("raw/a.csv")
    bucket.put({"raw/x=1/p": b"overwritten"})
    for path, error, words in (
        ("raw/a.csv", MissingFileError, "'raw/a.csv' at 'main' is missing from s3://.*raw/a.csv"),
        ("raw/x=1/p", CorruptFileError, "11 bytes at s3://.*raw/x=1/p, not 4"),
    ):
        refused(small_lake, bucket, error, words, lambda path=path: repo.read_bytes("main", path))
    assert repo.stat("main", "raw/a.csv").size == 1


def test_tables_that_are_gone_or_corrupt(
    small_lake: Lake, repo: Repository, bucket: Bucket
) -> None:
    commit_all(repo.branch("main"), {f"k/{number}": b"" for number in range(9)}, "m")
    tree = repo._context.tree(repo.resolve("main"))
    damaged, missing = tree.ranges[0], tree.ranges[-1]
    body = bytearray(bucket.get(f"lakes/one/_lakefs/{damaged.id}"))
    body[len(body) // 3] ^= 0xFF
    bucket.put({f"lakes/one/_lakefs/{damaged.id}": bytes(body)})
    bucket.delete(f"lakes/one/_lakefs/{missing.id}")
    first, last = damaged.min_key.decode(), missing.max_key.decode()
    refused(small_lake, bucket, CorruptFileError, damaged.id, lambda: repo.stat("main", first))
    refused(small_lake, bucket, MissingFileError, missing.id, lambda: repo.stat("main", last))
    bucket.delete(f"lakes/one/_lakefs/{tree.id}")
    opened = small_lake.repository("lake")
    refused(small_lake, bucket, MissingFileError, tree.id, lambda: opened.objects("main"))


# --- buckets that are away ------------------------------------------------------------------------


def all_verbs(lake: Lake, bucket: Bucket) -> list[Any]:
    """Return verbs that need the bucket, by a handle that has read nothing yet."""
    opened = lake.repository("lake")
    main = opened.branch("main")
    place = f"s3://{bucket.name}"
    return [
        lambda: lake.create_repository("other", f"{place}/lakes/two"),
        lambda: list(opened.objects("main")),
        lambda: opened.read_bytes("main", "k"),
        lambda: list(opened.diff("main~1", "main")),
        lambda: main.put("k", b"v"),
        lambda: main.import_objects(f"{place}/raw"),
        lambda: opened.merge("dev", "main"),
        lambda: opened.branch("staged").commit("m"),
    ]


@pytest.fixture
def used(repo: Repository) -> Repository:
    commit_all(repo.branch("main"), {"k": b"k"}, "base")
    commit_all(repo.create_branch("dev", "main"), {"d": b"d"}, "dev")
    commit_all(repo.branch("main"), {"m": b"m"}, "main")
    repo.create_branch("staged", "main").put("s", b"s")
    return repo


def states(repo: Repository) -> list[tuple[str, str, bool]]:
    return [(each.name, each.commit_id, bool(each.layers)) for each in repo.branch_states()]


def test_an_endpoint_that_is_away(
    small_lake: Lake, used: Repository, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = states(used), bucket.objects()
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOWHERE)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for verb in all_verbs(small_lake, bucket):
        with pytest.raises(StoreUnreachableError, match=f"{NOWHERE} does not answer.*check"):
            verb()
    monkeypatch.undo()
    assert (states(used), bucket.objects()) == before
    assert [each.name for each in small_lake.repositories()] == ["lake"]


def test_a_bucket_that_is_not_there(small_lake: Lake, repo: Repository, bucket: Bucket) -> None:
    for verb in (
        lambda: small_lake.create_repository("other", "s3://no-such-bucket/lake"),
        lambda: repo.branch("main").import_objects("s3://no-such-bucket/raw"),
    ):
        refused(
            small_lake, bucket, InvalidInputError, "bucket of s3://no-such-bucket/.*create it", verb
        )


@pytest.mark.system
def test_no_permission(
    small_lake: Lake,
    used: Repository,
    bucket: Bucket,
    s3_env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = states(used), bucket.objects()
    sign_in([], s3_env, monkeypatch)
    with access_control(s3_env["AWS_ENDPOINT_URL"]):
        for verb in all_verbs(small_lake, bucket):
            with pytest.raises(StorePermissionError, match=r"rejects.*check that the credentials"):
                verb()
    monkeypatch.undo()
    assert (states(used), bucket.objects()) == before
    assert [each.name for each in small_lake.repositories()] == ["lake"]


def test_what_must_write_finds_a_read_only_bucket_at_once(
    used: Repository, bucket: Bucket, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bucket.objects()
    reads = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}
    sign_in([reads], s3_env, monkeypatch)
    with access_control(s3_env["AWS_ENDPOINT_URL"]):
        for verb in (
            lambda: used.collect_garbage(dry_run=True),
            used.collect_garbage,
            used.dump_refs,
        ):
            with pytest.raises(ReadOnlyNamespaceError, match=r"rejects PutObject for .*get, put"):
                verb()
    monkeypatch.undo()
    assert bucket.objects() == before


@pytest.mark.system
def test_the_permissions_of_the_page_suffice(
    small_lake: Lake, bucket: Bucket, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path("docs/s3.md").read_text(encoding="utf-8")
    policy = page.partition("```json\n")[2].partition("```")[0]
    writer = json.loads(
        policy.replace("my-lake/lake/", f"{bucket.name}/lakes/").replace("my-lake", bucket.name)
    )["Statement"]
    root = f"arn:aws:s3:::{bucket.name}"
    raw = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{root}/raw/*"}
    reader = [raw, writer[0], {**writer[1], "Action": "s3:GetObject"}]
    uploads = {**writer[0], "Action": "s3:ListBucketMultipartUploads"}
    deletions = [f"{root}/lakes/one/{each}/*" for each in ("data", "_sparklake")]
    collector = {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": deletions}
    monkeypatch.setattr(s3, "MULTIPART_BYTES", 5 << 20)
    endpoint = s3_env["AWS_ENDPOINT_URL"]
    sign_in([*writer, raw], s3_env, monkeypatch)
    with access_control(endpoint):
        repo = small_lake.create_repository("lake", f"s3://{bucket.name}/lakes/one")
        main = repo.branch("main")
        main.import_objects(f"s3://{bucket.name}/raw", "raw")
        commit_all(repo.create_branch("dev", "main"), {"large": bytes(6 << 20)}, "large")
        commit_all(main, {"a": b"1"}, "small")
        repo.merge("dev", "main")
        repo.dump_refs()
        main.put("a", b"2")
        main.reset()
        with pytest.raises(StorePermissionError, match="DeleteObject"):
            repo.collect_garbage(grace=timedelta())
    assert len(bucket.objects("lakes/one/data/")) == 3
    sign_in(reader, s3_env, monkeypatch)
    with access_control(endpoint):
        assert contents(repo, "main") == {**RAW, "a": b"1", "large": bytes(6 << 20)}
        with pytest.raises(StorePermissionError, match="PutObject"):
            main.put("a", b"3")
    sign_in([*writer, raw, uploads, collector], s3_env, monkeypatch)
    with access_control(endpoint):
        repo.collect_garbage(grace=timedelta())  # Completes the rejected run.
        assert repo.check().findings == ()
    assert len(bucket.objects("lakes/one/data/")) == 2


def test_no_credentials(
    small_lake: Lake, used: Repository, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = states(used), bucket.objects()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for verb in all_verbs(small_lake, bucket):
        with pytest.raises(StorePermissionError, match=r"No usable credentials.*set AWS_ACC"):
            verb()
    monkeypatch.undo()
    assert (states(used), bucket.objects()) == before


def test_paths_of_levels(used: Repository) -> None:
    assert paths(used, "main", "k") == ["k"]
    assert [each.path for each in used.folder("staged")] == ["k", "m", "s"]


@pytest.mark.system
def test_refs_are_dumped_into_the_bucket_and_restored_from_it(
    repo: Repository, bucket: Bucket
) -> None:
    commit_all(repo.branch("main"), {"a": b"1"}, "one")
    first = repo.dump_refs()
    commit_all(repo.branch("main"), {"b": b"2"}, "two")
    assert repo.dump_refs().manifest != first.manifest
    objects = bucket.objects("lakes/one/data/")
    lake = memory_lake()
    again = lake.restore_repository("again", f"s3://{bucket.name}/lakes/one")
    assert again._context.refs.snapshot() == repo._context.refs.snapshot()
    assert contents(again, "main") == {"a": b"1", "b": b"2"}
    assert bucket.objects("lakes/one/data/") == objects
    with pytest.raises(NamespaceInUseError, match="'again'"):
        repo.dump_refs()
    bucket.delete(f"lakes/one/_lakefs/{repo.resolve('main~1').meta_range_id}")
    with pytest.raises(MissingFileError, match=repo.resolve("main~1").meta_range_id):
        memory_lake().restore_repository("third", f"s3://{bucket.name}/lakes/one")


def test_a_restore_from_the_bucket_names_all_cut_off_and_missing_ranges(
    repo: Repository, bucket: Bucket
) -> None:
    commit_all(repo.branch("main"), {"a": b"1"}, "one")
    commit_all(repo.branch("main"), {"a": b"2", "b": b"2"}, "two")
    repo.dump_refs()
    trees = [repo.resolve(each).meta_range_id for each in ("main", "main~1")]
    here, past = ((each.id for each in repo._context.trees.get(tree).ranges) for tree in trees)
    cut, gone = (f"lakes/one/_lakefs/{next(each)}" for each in (here, past))
    body = bucket.get(cut)
    bucket.delete(gone)
    for bad in (body[:-1], body[:20], b""):
        bucket.put({cut: bad})
        with pytest.raises(InvalidDumpError, match=r"^2 problems") as raised:
            memory_lake().restore_repository("again", f"s3://{bucket.name}/lakes/one")
        assert all(each.rpartition("/")[2] in str(raised.value) for each in (cut, gone))
