"""A bucket that throttles and drops: verbs do what they should, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.faults.faulty_store import FAULTS, FaultyStore, faulty_store
from sparklake import Lake
from sparklake.testing.lakes import contents
from sparklake.testing.s3_server import aws_client, fresh_bucket


@pytest.fixture
def faulty(
    s3_endpoint: str, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyStore]:
    """Yield a bad line to a bucket; only what arranges a test goes round it."""
    with faulty_store(s3_endpoint, rate=0.1, seed=7) as line:
        monkeypatch.setenv("AWS_ENDPOINT_URL", line.endpoint)
        monkeypatch.delenv("AWS_MAX_ATTEMPTS")
        yield line


@pytest.mark.system
def test_nothing_is_lost_on_a_bad_line(
    faulty: FaultyStore, s3_env: dict[str, str], tmp_path: Path, small_lake: Lake
) -> None:
    direct, bucket = aws_client("s3", s3_env), fresh_bucket(s3_env)
    root = f"s3://{bucket}/{tmp_path.name}"
    raw = {f"raw/{number:02}": b"%d" % number for number in range(40)}
    for key, body in raw.items():
        direct.put_object(Bucket=bucket, Key=f"{tmp_path.name}/{key}", Body=body)

    repo = small_lake.create_repository("lake", f"{root}/lake", range_records=4)
    main = repo.branch("main")
    main.import_objects(f"{root}/raw", "raw")
    assert contents(repo, "main") == raw

    dev = repo.create_branch("dev", "main")
    theirs = {"raw/03": b"theirs", "new": b"n" * 100_000}
    for path, body in theirs.items():
        dev.put(path, body)
    dev.delete("raw/07")
    dev.commit("theirs")
    main.put("raw/20", b"ours")
    main.commit("ours")
    repo.merge("dev", "main")

    wanted = {**raw, **theirs, "raw/20": b"ours"}
    del wanted["raw/07"]
    assert contents(repo, "main") == wanted
    assert contents(repo, "dev") == {**wanted, "raw/20": b"20"}
    assert len(list(repo.log("main", first_parent=True))) == 4, "no verb was done twice"
    assert set(faulty.spoilt) == set(FAULTS)
