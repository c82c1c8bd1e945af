"""A double of Google Cloud Storage, on a free loopback port.

It serves the XML API, which obstore uses, and what Google's own client for Python uses of the JSON
API. Both see the same objects.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import parse_qs, quote, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape

import google_crc32c
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

PAGE = 1000


@dataclass(frozen=True)
class Stored:
    """One generation of an object. Its time and generation order the writes."""

    body: bytes
    generation: int
    time: datetime
    parts: int = 0

    @property
    def md5(self) -> bytes:
        return hashlib.md5(self.body, usedforsecurity=False).digest()

    @property
    def etag(self) -> str:
        # Composite objects have no MD5.
        return f'"-C{self.generation}"' if self.parts else f'"{self.md5.hex()}"'


@dataclass
class Buckets:
    """All objects, and the parts of unfinished uploads."""

    objects: dict[str, dict[str, Stored]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    generations: Iterator[int] = field(default_factory=lambda: count(1))

    def put(self, bucket: str, key: str, body: bytes, match: str | None, parts: int = 0) -> Stored:
        """Write an object if its generation is the expected one. 0 is none."""
        with self.lock:
            if bucket not in self.objects:
                raise RefusedError(404, "NoSuchBucket")
            current = self.objects[bucket].get(key)
            if match is not None and int(match) != (current.generation if current else 0):
                raise RefusedError(412, "PreconditionFailed")
            now = datetime.now(timezone.utc)
            stored = Stored(body, next(self.generations), now, parts)
            self.objects[bucket][key] = stored
            return stored

    def get(self, bucket: str, key: str) -> Stored:
        if bucket not in self.objects:
            raise RefusedError(404, "NoSuchBucket")
        stored = self.objects[bucket].get(key)
        if stored is None:
            raise RefusedError(404, "NoSuchKey")
        return stored

    def delete(self, bucket: str, key: str) -> None:
        with self.lock:
            self.get(bucket, key)
            del self.objects[bucket][key]

    def level(
        self, bucket: str, query: Mapping[str, str]
    ) -> tuple[list[tuple[str, Stored]], list[str], str]:
        """Return one page of objects and folders, and the start of the next page."""
        if bucket not in self.objects:
            raise RefusedError(404, "NoSuchBucket")
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("pageToken") or ""
        after = max(after, query.get("start-after", ""))
        items, folders = list[tuple[str, Stored]](), dict[str, None]()
        with self.lock:
            keys = sorted(self.objects[bucket].items())
        last = ""
        for key, stored in keys:
            if not key.startswith(prefix) or key <= after or key.startswith(tuple(folders) or "\0"):
                continue
            if len(items) + len(folders) == PAGE:
                return items, list(folders), last
            tail = key[len(prefix) :]
            if delimiter and delimiter in tail:
                folder = prefix + tail[: tail.index(delimiter) + 1]
                if folder <= after:
                    continue
                folders[folder] = None
                last = folder + "\U0010ffff"
            else:
                items.append((key, stored))
                last = key
        return items, list(folders), ""


class RefusedError(Exception):
    """A request with an error response."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    buckets: Buckets
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        url = urlsplit(self.path)
        self.query = {
            name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        self.body = self._received()
        try:
            json_path = re.fullmatch(r"(?:/upload|/download)?/storage/v1/b(?:/(.*))?", url.path)
            if json_path:
                self._json(json_path[1] or "")
            else:
                bucket, _, key = url.path[1:].partition("/")
                self._xml(unquote(bucket), unquote(key))
        except RefusedError as error:
            text = f"<Error><Code>{error.code}</Code><Message>{error.code}</Message></Error>"
            self._answer(error.status, text.encode(), {"Content-Type": "application/xml"})

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815  (the base class's)

    def _received(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    # --- XML --------------------------------------------------------------------------------------

    def _xml(self, bucket: str, key: str) -> None:
        if not key:
            self._list(bucket)
        elif self.command == "PUT" and "partNumber" in self.query:
            self.buckets.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
            self._answer(200, b"", {"ETag": f'"{uuid4().hex}"'})
        elif self.command == "PUT":
            self._put(bucket, key)
        elif self.command == "POST":
            self._multipart(bucket, key)
        elif self.command == "DELETE" and "uploadId" in self.query:
            self.buckets.uploads.pop(self.query["uploadId"], None)
            self._answer(204, b"", {})
        elif self.command == "DELETE":
            self.buckets.delete(bucket, key)
            self._answer(204, b"", {})
        else:
            self._get(self.buckets.get(bucket, key))

    def _put(self, bucket: str, key: str) -> None:
        body = self.body
        if source := self.headers.get("x-goog-copy-source"):
            origin, _, name = source.lstrip("/").partition("/")
            body = self.buckets.get(unquote(origin), unquote(name)).body
        match = self.headers.get("x-goog-if-generation-match")
        stored = self.buckets.put(bucket, key, body, match)
        text = f"<CopyObjectResult><ETag>{escape(stored.etag)}</ETag></CopyObjectResult>"
        self._answer(200, text.encode() if source else b"", _facts(stored))

    def _multipart(self, bucket: str, key: str) -> None:
        if "uploads" in self.query:
            name = uuid4().hex
            self.buckets.uploads[name] = {}
            text = f"<UploadId>{name}</UploadId>"
        else:
            # As in the real store, the end of such an upload has no precondition.
            parts = sorted(self.buckets.uploads.pop(self.query["uploadId"]).items())
            whole = b"".join(part for _, part in parts)
            stored = self.buckets.put(bucket, key, whole, None, len(parts))
            text = f"<ETag>{escape(stored.etag)}</ETag>"
        root = (
            "InitiateMultipartUploadResult"
            if "uploads" in self.query
            else "CompleteMultipartUploadResult"
        )
        text = f"<{root}><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key>{text}</{root}>"
        self._answer(200, text.encode(), {"Content-Type": "application/xml"})

    def _get(self, stored: Stored) -> None:
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if match is None:
            self._answer(200, stored.body, _facts(stored))
            return
        size = len(stored.body)
        first = int(match[1]) if match[1] else size - int(match[2])
        last = min(int(match[2]), size - 1) if match[1] and match[2] else size - 1
        if first >= size:
            raise RefusedError(416, "InvalidRange")
        place = {"Content-Range": f"bytes {first}-{last}/{size}"}
        self._answer(206, stored.body[first : last + 1], {**_facts(stored), **place})

    def _list(self, bucket: str) -> None:
        items, folders, following = self.buckets.level(bucket, self.query)
        parts = [
            f"<Contents><Key>{escape(key)}</Key><Size>{len(each.body)}</Size>"
            f"<LastModified>{_text(each.time)}</LastModified><ETag>{escape(each.etag)}</ETag>"
            f"<Generation>{each.generation}</Generation></Contents>"
            for key, each in items
        ]
        parts += [
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders
        ]
        if following:
            parts.append(f"<NextContinuationToken>{escape(following)}</NextContinuationToken>")
        text = f"<ListBucketResult>{''.join(parts)}</ListBucketResult>"
        self._answer(200, text.encode(), {"Content-Type": "application/xml"})

    # --- JSON -------------------------------------------------------------------------------------

    def _json(self, path: str) -> None:
        bucket, _, key = path.partition("/o")
        bucket, key = unquote(bucket), unquote(key.removeprefix("/"))
        match = self.query.get("ifGenerationMatch")
        if not bucket:
            self.buckets.objects.setdefault(json.loads(self.body)["name"], {})
            self._document({"name": json.loads(self.body)["name"]})
        elif self.command == "POST":
            head, body = self._related()
            name = self.query.get("name") or json.loads(head)["name"]
            self._document(_resource(bucket, name, self.buckets.put(bucket, name, body, match)))
        elif self.command == "DELETE":
            self.buckets.delete(bucket, key)
            self._answer(204, b"", {})
        elif not key:
            items, folders, following = self.buckets.level(bucket, self.query)
            resources = [_resource(bucket, name, each) for name, each in items]
            token = {"nextPageToken": following} if following else {}
            self._document({"items": resources, "prefixes": folders, **token})
        elif self.query.get("alt") == "media":
            self._get(self.buckets.get(bucket, key))
        else:
            self._document(_resource(bucket, key, self.buckets.get(bucket, key)))

    def _related(self) -> tuple[bytes, bytes]:
        """Return the two parts of a multipart/related body."""
        kind = self.headers["Content-Type"]
        boundary = b"--" + re.search(r'boundary="?([^";]+)', kind)[1].encode()  # type: ignore[index]
        _, head, rest = self.body.split(boundary, 2)
        body = rest.rpartition(b"\r\n" + boundary)[0]
        return head.partition(b"\r\n\r\n")[2], body.partition(b"\r\n\r\n")[2]

    def _document(self, document: object) -> None:
        self._answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _facts(stored: Stored) -> dict[str, str]:
    digest = google_crc32c.value(stored.body).to_bytes(4, "big")
    return {
        "ETag": stored.etag,
        "Last-Modified": format_datetime(stored.time, usegmt=True),
        "x-goog-generation": str(stored.generation),
        "x-goog-hash": f"crc32c={base64.b64encode(digest).decode()}",
    }


def _resource(bucket: str, key: str, stored: Stored) -> dict[str, str]:
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": key,
        "size": str(len(stored.body)),
        "generation": str(stored.generation),
        "updated": _text(stored.time),
        "md5Hash": base64.b64encode(stored.md5).decode(),
        "selfLink": f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}",
    }


@contextmanager
def gcs_server() -> Iterator[tuple[str, Buckets]]:
    """Yield the endpoint of a running server, and its buckets."""
    buckets = Buckets()
    handler = type("Handler", (_Handler,), {"buckets": buckets})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", buckets
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def fresh_gcs_bucket(buckets: Buckets) -> str:
    """Create a bucket for one test; return its URI."""
    name = f"bucket-{uuid4().hex}"
    buckets.objects[name] = {}
    return f"gs://{name}"


def key_file(folder: Path) -> Path:
    """Write the key file of a service account with a new private key."""
    private = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "client_email": "lake@project.iam.gserviceaccount.com",
        "private_key": private.decode(),
        "private_key_id": "1",
        "client_id": "1",
        "token_uri": "http://127.0.0.1:1/token",
    }
    path = folder / "account.json"
    path.write_text(json.dumps(account))
    return path
