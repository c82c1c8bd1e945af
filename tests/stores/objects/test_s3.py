from __future__ import annotations

import base64
import json
import os
import pickle
import re
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from sparklake.errors import (
    CorruptFileError,
    MissingFileError,
    SparklakeError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.stores.objects import open_object, open_store
from sparklake.stores.objects.s3 import store as s3
from sparklake.stores.objects.s3.store import MULTIPART_BYTES, S3Store
from sparklake.testing.object_store import ObjectStoreContract, keys
from sparklake.testing.s3_server import aws_client
from tests.support.s3_server import access_control

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FORKS = """
import os, sys
from sparklake.stores.objects import open_store

store = open_store(sys.argv[1])
store.put_if_absent("before", b"before")
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        for turn in range(20):
            body = f"{number}-{turn}".encode()
            assert store.put_if_absent(f"{number}/{turn}", body)
            assert store.get(f"{number}/{turn}") == body
            assert store.get("before") == b"before"
        os._exit(0)
    children.append(child)
assert store.get("before") == b"before"
sys.exit(max(os.waitpid(child, 0)[1] for child in children))
"""


@pytest.fixture
def store(bucket: str) -> S3Store:
    return S3Store(bucket, "some/lake")


class TestS3Store(ObjectStoreContract):
    pass


def every_call(store: S3Store, folder: Path) -> list[Callable[[], object]]:
    source = folder / "source"
    source.write_bytes(b"body")
    return [
        lambda: store.get("x"),
        lambda: store.get_to_file("x", folder / "copy"),
        lambda: store.put_if_absent("x", b"body"),
        lambda: store.put_files_if_absent({"x": source}),
        lambda: store.find("x"),
        lambda: store.checksum("x"),
        lambda: list(store.list()),
        lambda: store.delete("x"),
        lambda: list(store.get_many(["x", "y"])),
    ]


# --- keys -----------------------------------------------------------------------------------------


def test_a_prefix_acts_as_a_directory(bucket: str) -> None:
    S3Store(bucket, "lake").put_if_absent("x", b"one")
    S3Store(bucket, "lake2").put_if_absent("x", b"two")
    assert keys(S3Store(bucket, "lake")) == ["x"]
    assert keys(S3Store(bucket)) == ["lake/x", "lake2/x"]


@pytest.mark.system
def test_a_listing_of_several_pages_is_complete(store: S3Store, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"")
    expected = [f"data/{number:04}" for number in range(1_005)]
    store.put_files_if_absent(dict.fromkeys(expected, source))
    assert keys(store) == expected


def test_directory_markers_are_not_listed(bucket: str, s3_env: dict[str, str]) -> None:
    client = aws_client("s3", s3_env)
    for key in ("lake/", "lake/data/", "lake/data/x"):
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    assert keys(S3Store(bucket, "lake")) == ["data/x"]


def test_a_key_that_only_s3_allows_is_read(bucket: str, s3_env: dict[str, str]) -> None:
    aws_client("s3", s3_env).put_object(Bucket=bucket, Key="in//place", Body=b"body")
    store, key = open_object(f"s3a://{bucket}/in//place")
    assert store.get(key) == b"body"


# --- parts ----------------------------------------------------------------------------------------


def test_progress_is_reported_for_each_part(
    store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "MULTIPART_BYTES", 5 << 20)
    monkeypatch.setattr(s3, "_PART_BYTES", 5 << 20)
    (tmp_path / "large").write_bytes(bytes(11 << 20))
    (tmp_path / "small").write_bytes(b"1")
    sent: list[int] = []
    names = ("large", "small")
    store.put_files_if_absent({name: tmp_path / name for name in names}, sent.append)
    assert sent == [5 << 20, 5 << 20, 1 << 20]


@pytest.mark.system
def test_a_large_object_is_put_in_parts(
    store: S3Store, bucket: str, s3_env: dict[str, str], tmp_path: Path
) -> None:
    body = os.urandom(1 << 20) * ((MULTIPART_BYTES >> 20) + 1)
    source = tmp_path / "source"
    source.write_bytes(body)
    store.put_files_if_absent({"large": source})
    stored = store.find("large")
    assert stored is not None
    assert stored.size == len(body)
    assert re.fullmatch(r"[0-9a-f]{32}-5", stored.checksum)
    store.get_to_file("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == body

    assert not store.put_if_absent("large", bytes(MULTIPART_BYTES + 1))
    found_again = store.find("large")
    assert found_again is not None
    assert found_again.checksum == stored.checksum
    assert "Uploads" not in aws_client("s3", s3_env).list_multipart_uploads(Bucket=bucket)


# --- failures -------------------------------------------------------------------------------------


def test_a_missing_bucket_is_reported(s3_env: dict[str, str], tmp_path: Path) -> None:
    for call in every_call(S3Store("no-such-bucket", "lake"), tmp_path):
        with pytest.raises(StoreUnreachableError, match="bucket of s3://no-such-bucket/lake"):
            call()
    assert [each.name for each in tmp_path.iterdir()] == ["source"]


def test_an_unreachable_endpoint_is_reported(
    s3_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for call in every_call(S3Store("bucket"), tmp_path):
        with pytest.raises(StoreUnreachableError, match=r"http://127\.0\.0\.1:1 does not answer"):
            call()


def test_an_invalid_endpoint_url_is_reported(
    s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not a url")
    with pytest.raises(StoreUnreachableError, match="AWS_ENDPOINT_URL"):
        S3Store("bucket").get("x")


def test_wrong_credentials_are_reported(store: S3Store, s3_endpoint: str, tmp_path: Path) -> None:
    with access_control(s3_endpoint):
        for call in every_call(store, tmp_path):
            with pytest.raises(StorePermissionError) as caught:
                call()
            assert "test-key" not in str(caught.value)
            assert "test-secret" not in str(caught.value)


def test_credentials_without_permissions_are_reported(
    store: S3Store, s3_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_if_absent("x", b"body")
    iam = aws_client("iam", s3_env)
    iam.create_user(UserName="reader")
    read = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [read]})
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=policy)
    access_key = iam.create_access_key(UserName="reader")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access_key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", access_key["SecretAccessKey"])
    with access_control(s3_env["AWS_ENDPOINT_URL"]):
        assert store.get("x") == b"body"
        for call in every_call(store, tmp_path)[2:4]:
            with pytest.raises(StorePermissionError, match=r"PutObject.*AccessDenied"):
                call()
        with pytest.raises(StorePermissionError, match="ListObjectsV2"):
            keys(store)


def test_missing_credentials_are_reported(
    store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for call in every_call(store, tmp_path):
        with pytest.raises(StorePermissionError, match="AWS_ACCESS_KEY_ID"):
            call()


def test_a_missing_profile_is_reported(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StorePermissionError, match="ProfileNotFound"):
        store.get("x")


# --- endpoints that answer oddly ------------------------------------------------------------------

Answer = tuple[int, bytes, int]  # status, body, announced length


class Endpoint(ThreadingHTTPServer):
    """Gives each request the next of some answers, and the last one for ever."""

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), AnswerNext)
        self.answers = answers
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}


class AnswerNext(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"  # or each put would wait a second for "100 Continue"

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answers, requests = self.server.answers, self.server.asked
        status, body, length = answers[min(len(requests), len(answers) - 1)]
        requests.append(self.command)
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint(s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Endpoint]:
    @contextmanager
    def serve(*answers: Answer) -> Iterator[Endpoint]:
        with Endpoint(list(answers)) as server:
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    return serve


def refusal(status: int, code: str) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>m</Message></Error>".encode()
    return status, body, len(body)


def test_a_store_without_conditional_put_is_rejected(endpoint: Callable[..., Endpoint]) -> None:
    with endpoint(refusal(501, "NotImplemented")), pytest.raises(StoreError) as caught:
        S3Store("bucket").put_if_absent("x", b"body")
    assert "has no conditional put" in str(caught.value)


def test_a_conflict_is_retried(endpoint: Callable[..., Endpoint]) -> None:
    conflict = refusal(409, "ConditionalRequestConflict")
    with endpoint(conflict, conflict, (200, b"", 0)) as server:
        assert S3Store("bucket").put_if_absent("x", b"body")
        assert server.asked == ["PUT"] * 3
    with endpoint(conflict, refusal(412, "PreconditionFailed")) as server:
        assert not S3Store("bucket").put_if_absent("x", b"body")
        assert server.asked == ["PUT"] * 2


def test_a_create_with_a_lost_response_is_decided_by_the_content(
    endpoint: Callable[..., Endpoint],
) -> None:
    lost, present = refusal(500, "InternalError"), refusal(412, "PreconditionFailed")
    for body, is_ours in ((b"body", True), (b"bodY", False), (b"body and more", False)):
        with endpoint(lost, present, (200, body, len(body))) as server:
            assert S3Store("bucket").put_if_absent("x", b"body") is is_ours
            assert server.asked == ["PUT", "PUT", "GET"]


@pytest.mark.parametrize("change", ["put_object", "delete_object"])
def test_a_replacement_wins_over_a_concurrent_change(
    store: S3Store, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    find, changes = S3Store.find, iter([change])
    client, target = aws_client("s3", s3_env), {"Bucket": store.bucket, "Key": store.root + "x"}

    def find_before_a_change(store: S3Store, key: str) -> object:
        item = find(store, key)
        for each in changes:
            getattr(client, each)(**target)
        return item

    store.replace("x", b"first")
    monkeypatch.setattr(S3Store, "find", find_before_a_change)
    store.replace("x", b"ours")
    assert store.get("x") == b"ours"
    monkeypatch.setattr(S3Store, "_swap", lambda *_: False)
    with pytest.raises(StoreError, match="16 attempts"):
        store.replace("x", b"ours")


def test_a_truncated_response_is_read_again(
    endpoint: Callable[..., Endpoint], tmp_path: Path
) -> None:
    with endpoint((200, b"bo", 4), (200, b"body", 4)) as server:
        assert S3Store("bucket").get("x") == b"body"
        assert server.asked == ["GET"] * 2
    with endpoint((200, b"bo", 4), (200, b"body", 4)):
        S3Store("bucket").get_to_file("x", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"body"


def every_read(store: S3Store, folder: Path) -> list[Callable[[], object]]:
    return [
        lambda: store.get("x"),
        lambda: list(store.get_many(["x", "y"])),
        lambda: store.get_part("x", 0, 4),
        lambda: store.get_to_file("x", folder / "copy"),
    ]


# --- answers that break, byte for byte ------------------------------------------------------------

DATE = b"Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n"


def plain(status: int, body: bytes, length: bytes = b"", headers: bytes = DATE) -> bytes:
    length = length or b"%d" % len(body)
    head = b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %s\r\n" % (status, length)
    return head + headers + b"\r\n" + body


def chunked(status: int, body: bytes) -> bytes:
    head = b"HTTP/1.1 %d X\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n" % status
    return head + DATE + b"\r\n" + body


@contextmanager
def breaking(*answers: bytes) -> Iterator[list[bytes]]:
    """Give each connection the next of some answers, and then reset it; yield the requests."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    with listener.accept()[0] as connection:
                        request = b""
                        while b"\r\n\r\n" not in request and (part := connection.recv(65536)):
                            request += part
                        requests.append(request.partition(b" ")[0])
                        connection.sendall(answers[min(len(requests), len(answers)) - 1])
                        reset = struct.pack("ii", 1, 0)
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
            yield requests
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("cut", [plain(1, b"<Err", b"100"), chunked(1, b"zz\r\nxx")])
def test_a_reset_during_an_error_response_is_retried(
    s3_env: object, status: int, cut: bytes
) -> None:
    refused = cut.replace(b"1.1 1 X", b"1.1 %d X" % status)
    with breaking(refused, plain(200, b"body")) as requests:
        assert S3Store("bucket").get("x") == b"body"
        assert requests == [b"GET"] * 2


# botocore leaves the connection of headers that it cannot parse to the garbage collector.
@pytest.mark.system
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "answer",
    [
        plain(503, b"<Err", b"100"),
        plain(404, b"<Err", b"100"),
        plain(307, b"<E", b"50", b"Location: http://127.0.0.1:1/\r\n"),
        *(chunked(500, b"zz\r\nxx"), chunked(200, b"zz\r\nxx"), chunked(206, b"4\r\nbo")),
        *(plain(200, b"bo", b"100"), plain(200, b"bo", b"x"), plain(206, b"body")),
        *(plain(200, b"body", headers=b""), plain(200, b"body", headers=b"Last-Modified: no\r\n")),
        plain(206, b"body", headers=b"Content-Range: bytes 0-3/*\r\n"),
        plain(301, b"", headers=b"Location: http://127.0.0.1:1/\r\n"),
        plain(200, b"<html>log in<br></html>"),
        plain(200, b"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"),
        *(b"\0\1\2\r\n\r\n", b"HTTP/1.1 x\r\n\r\n", b""),
    ],
)
def test_malformed_responses_raise_only_our_errors(
    s3_env: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    store = S3Store("bucket")
    with breaking(answer):
        for call in [*every_call(store, tmp_path), lambda: store.get_part("x", 0, 4)]:
            with suppress(SparklakeError):
                call()
            (tmp_path / "copy").unlink(missing_ok=True)


def test_a_truncated_object_leaves_no_file(
    endpoint: Callable[..., Endpoint], tmp_path: Path
) -> None:
    for read in every_read(S3Store("bucket"), tmp_path):
        with endpoint((200, b"bo", 4)) as server:
            with pytest.raises(CorruptFileError, match=r"s3://bucket/[xy] ends before") as caught:
                read()
            assert server.asked.count("GET") in (3, 6)
        assert caught.value.kind == "corrupt_file"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_a_body_damaged_in_transit_is_read_again_or_reported(
    endpoint: Callable[..., Endpoint], tmp_path: Path
) -> None:
    """Once, it is read again; always, the error says so, and no file is left."""
    crc = base64.b64encode(crc32(b"body").to_bytes(4, "big")).decode()
    for read in every_read(S3Store("bucket"), tmp_path):
        with endpoint((200, b"bOdy", 4)) as server:
            server.headers = {"x-amz-checksum-crc32": crc}
            with pytest.raises(
                CorruptFileError, match=r"s3://bucket/[xy] does not match the check"
            ):
                read()
    assert list(tmp_path.iterdir()) == []
    with endpoint((200, b"bOdy", 4), (200, b"body", 4)) as server:
        server.headers = {"x-amz-checksum-crc32": crc}
        assert S3Store("bucket").get("x") == b"body"
        assert server.asked == ["GET"] * 2


def test_an_object_deleted_during_a_read_is_missing(endpoint: Callable[..., Endpoint]) -> None:
    with endpoint((200, b"bo", 4), refusal(404, "NoSuchKey")), pytest.raises(MissingFileError):
        S3Store("bucket").get("x")


def test_an_endpoint_that_is_not_a_store_is_reported(endpoint: Callable[..., Endpoint]) -> None:
    with endpoint((404, b"<html/>", 7)):
        for call in (S3Store("bucket").get, lambda key: S3Store("bucket").put_if_absent(key, b"")):
            with pytest.raises(StoreError) as caught:
                call("x")
            assert not isinstance(caught.value, MissingFileError)


def test_an_unknown_failure_reports_the_object(endpoint: Callable[..., Endpoint]) -> None:
    with endpoint(refusal(400, "KeyTooLongError")), pytest.raises(SparklakeError) as caught:
        S3Store("bucket").get("x")
    assert "s3://bucket/x (KeyTooLongError)" in str(caught.value)


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.system
def test_forked_processes_have_their_own_clients(store: S3Store) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, store.uri], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert len(keys(store)) == 81


def test_a_store_can_be_pickled(store: S3Store) -> None:
    assert pickle.loads(pickle.dumps(store)) == store
    assert open_store(store.uri) == store
