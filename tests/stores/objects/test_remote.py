"""The remote store, in a bucket of an S3 server and on a bad line."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import obstore
import pytest

from benchmarks.remote_s3 import S3Bucket
from campaigns.faults.faulty_store import (
    CUT,
    DROPPED,
    FAULTS,
    LOST,
    STALLED,
    THROTTLED,
    FaultyStore,
    faulty_store,
)
from sparklake.errors import (
    InvalidKeyError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.graveler.ports import ContentPart, StoredFolder
from sparklake.stores.objects import remote
from sparklake.stores.objects.remote import RemoteStore
from sparklake.testing.object_store import ObjectStoreContract
from sparklake.testing.s3_server import aws_client
from tests.support.s3_server import access_control

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def every_call(store: RemoteStore, folder: Path) -> list[Callable[[], object]]:
    source = folder / "source"
    source.write_bytes(b"body")
    return [
        lambda: store.get("x"),
        lambda: store.get_part("x", 0, 2),
        lambda: store.get_to_file("x", folder / "copy"),
        lambda: store.put_if_absent("x", b"body"),
        lambda: store.put_files_if_absent({"x": source}),
        lambda: store.replace("x", b"a body to cut"),
        lambda: store.find("x"),
        lambda: store.checksum("x"),
        lambda: list(store.list()),
        lambda: list(store.scan("", level=True)),
        lambda: list(store.get_many(["x", "y"])),
        lambda: store.delete("x"),
    ]


@pytest.fixture
def store(bucket: str) -> RemoteStore:
    return RemoteStore(S3Bucket(bucket), "some/lake")


class TestRemoteStore(ObjectStoreContract):
    pass


def test_directory_markers_are_not_listed(bucket: str, s3_env: dict[str, str]) -> None:
    client = aws_client("s3", s3_env)
    for key, body in {"a/": b"", "a/x": b"", "b": b"full", "b/": b"", "c": b"", "c/": b""}.items():
        client.put_object(Bucket=bucket, Key=f"lake/{key}", Body=body)
    store = RemoteStore(S3Bucket(bucket), "lake")
    assert {each.key: each.size for each in store.list()} == {"a/x": 0, "b": 4, "c": 0}
    assert len(list(store.list())) == 3
    level = sorted(each.key for each in store.scan("", level=True))
    assert level == ["a/", "b", "b/", "c", "c/"]


def walk(store: RemoteStore) -> None:
    folders = [""]
    while folders:
        entries = store.scan(folders.pop(), level=True)
        folders += [each.key for each in entries if isinstance(each, StoredFolder)]


@pytest.mark.parametrize("key", ["in//place", "/top", "a/../b", "tab\there"])
def test_a_key_without_a_valid_path_is_rejected(
    bucket: str, s3_env: dict[str, str], key: str
) -> None:
    aws_client("s3", s3_env).put_object(Bucket=bucket, Key=key, Body=b"body")
    store = RemoteStore(S3Bucket(bucket))
    with pytest.raises(InvalidKeyError, match="Rename"):
        list(store.list())
    with pytest.raises(InvalidKeyError, match="Rename"):
        walk(store)
    if key != "/top":
        with pytest.raises(InvalidKeyError):
            store.get(key)


FORK = """
import os, sys
from sparklake.errors import StoreError
from benchmarks.remote_s3 import open_remote_s3

early = os.fork()
store = open_remote_s3(sys.argv[1])
store.put_if_absent(f"{early != 0}", b"body")
if early == 0:
    os._exit(0)
assert os.waitpid(early, 0)[1] == 0
late = os.fork()
if late == 0:
    try:
        store.get("True")
    except StoreError as error:
        os._exit(7 if "spawn" in str(error) else 8)
assert os.waitstatus_to_exitcode(os.waitpid(late, 0)[1]) == 7
assert store.get("True") == store.get("False") == b"body"
"""


def test_a_process_forked_after_first_use_is_rejected(store: RemoteStore) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, store.uri], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_a_store_can_be_pickled_without_its_secrets(store: RemoteStore) -> None:
    assert pickle.loads(pickle.dumps(store)) == store
    assert b"secret" not in pickle.dumps(store)


def test_a_missing_bucket_is_reported(s3_env: dict[str, str], tmp_path: Path) -> None:
    store = RemoteStore(S3Bucket("no-such-bucket"), "lake")
    for call in every_call(store, tmp_path):
        with pytest.raises(StoreUnreachableError, match="bucket of s3://no-such-bucket/lake"):
            call()
    assert [each.name for each in tmp_path.iterdir()] == ["source"]


def test_an_unreachable_endpoint_is_reported(
    s3_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PAUSES", (0.01,))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for call in every_call(RemoteStore(S3Bucket("bucket")), tmp_path):
        with pytest.raises(StoreUnreachableError, match=r"http://127\.0\.0\.1:1 does not answer"):
            call()


def test_wrong_credentials_are_reported(
    store: RemoteStore, s3_endpoint: str, tmp_path: Path
) -> None:
    with access_control(s3_endpoint):
        for call in every_call(store, tmp_path):
            with pytest.raises(StorePermissionError, match="AWS_ACCESS_KEY_ID") as caught:
                call()
            assert "test-" not in str(caught.value)


def test_a_large_file_is_sent_in_parts(
    store: RemoteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LARGE_BYTES", 5 << 20)
    monkeypatch.setattr(remote, "_PART_BYTES", 5 << 20)
    (tmp_path / "large").write_bytes(b"\1" * (11 << 20))
    (tmp_path / "small").write_bytes(b"1")
    sent: list[int] = []
    names = {name: tmp_path / name for name in ("large", "small")}
    assert list(store.put_files_if_absent(names, sent.append)) == ["large", "small"]
    assert sent == [5 << 20, 5 << 20, 1 << 20]
    assert store.get("large") == b"\1" * (11 << 20)
    assert list(store.put_files_if_absent(names)) == []


@pytest.fixture
def line(
    s3_endpoint: str, s3_env: object, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyStore]:
    """Yield a bad line to the server, without faults at first."""
    monkeypatch.setattr(remote, "PAUSES", (0.01,) * 3)
    monkeypatch.setenv("SPARKLAKE_BUCKET_READ_SECONDS", "0.4")
    with faulty_store(s3_endpoint, rate=0, seed=0) as faulty:
        faulty.stall_seconds = 1.0
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        yield faulty


@pytest.mark.parametrize("fault", [*FAULTS, STALLED])
def test_a_transient_failure_is_retried(store: RemoteStore, line: FaultyStore, fault: str) -> None:
    line.aim(fault)
    assert store.put_if_absent("x", b"body"), "also if the answer was lost"
    assert not store.put_if_absent("x", b"body")
    assert not store.put_if_absent("x", b"other")
    for call in (
        lambda: store.get("x") == b"body",
        lambda: store.get_part("x", 1, 3) == ContentPart(b"od", 4),
        lambda: [each.key for each in store.list()] == ["x"],
        lambda: [each.key for each in store.scan("", level=True)] == ["x"],
        lambda: store.find("x") is not None,
        lambda: store.delete("x") is None and store.find("x") is None,
    ):
        line.aim(fault)
        assert call()


def test_another_writer_wins_while_a_response_is_lost(
    store: RemoteStore, line: FaultyStore
) -> None:
    line.aim(THROTTLED)
    put = obstore.put

    def late(*args: Any, **options: Any) -> Any:
        with pytest.raises(obstore.exceptions.GenericError):
            put(*args, **options)
        monkeypatch.undo()
        put(args[0], args[1], b"theirs", mode="create", use_multipart=False)
        return put(*args, **options)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(obstore, "put", late)
        assert not store.put_if_absent("x", b"ours")
    assert store.get("x") == b"theirs"


@pytest.mark.parametrize("fault", [*FAULTS, STALLED])
def test_a_persistent_failure_is_an_error(
    store: RemoteStore, line: FaultyStore, tmp_path: Path, fault: str
) -> None:
    def fail(call: Callable[[], object]) -> None:
        with suppress(StoreError):
            call()
            assert fault == CUT, "the answer has no body"

    store.put_if_absent("x", b"a body to cut")
    line.aim(fault, count=1000)
    calls = every_call(store, tmp_path)
    # At once, because each waits for its timeouts.
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(fail, calls))
    line.aim(None)
    assert not list(tmp_path.glob("copy*")) or fault == CUT


def test_a_file_is_put_despite_a_fault(
    store: RemoteStore, line: FaultyStore, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(3_000_000))
    for fault in (STALLED, DROPPED, LOST):
        line.aim(fault)
        assert list(store.put_files_if_absent({fault: source})) == [fault]
        assert store.get(fault) == source.read_bytes()


WAITS = """
import sys, time
from benchmarks.remote_s3 import open_remote_s3

store = open_remote_s3(sys.argv[1])
print("waiting", flush=True)
try:
    store.get("x")
except KeyboardInterrupt:
    sys.exit(5)
"""


def test_ctrl_c_interrupts_a_waiting_call(store: RemoteStore, line: FaultyStore) -> None:
    line.stall_seconds = 20
    line.aim(STALLED, count=100)
    environment = {**os.environ, "SPARKLAKE_BUCKET_READ_SECONDS": "20"}
    command = [sys.executable, "-c", WAITS, store.uri]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 5
