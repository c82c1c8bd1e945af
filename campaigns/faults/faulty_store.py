"""A proxy to an object store, with the faults of overload and of a bad network."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from random import Random
from threading import Event, Lock, Thread
from urllib.parse import urlsplit

THROTTLED, DROPPED, LOST, CUT = "throttled", "dropped", "lost", "cut"
"""Refused with 503; not heard at all; done, but never answered; answered in half."""

STALLED, SHORT = "stalled", "short"
"""Not answered for a long time; answered in half, with the length of the half."""

LATE = "late"
"""Held until the test releases it, then done, although the client has given up and tried again."""

FAULTS = (THROTTLED, DROPPED, LOST, CUT)

_SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>slow</Message></Error>"
_SENT_AT_ONCE = 1 << 16
_OF_A_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class FaultyStore:
    """A proxy to a store, with counts of spoilt answers by kind."""

    def __init__(self, endpoint: str, rate: float, seed: int) -> None:
        self.upstream = urlsplit(endpoint).netloc
        self.spoilt: Counter[str] = Counter()
        self.endpoint = ""
        self._rate = rate
        self._random = Random(seed)
        self._turn = count()
        self.kinds: tuple[str, ...] = FAULTS
        self._lock = Lock()
        self.ended = Event()
        self.requests = 0
        self.sent_bytes = 0
        self.stall_seconds = 0.0
        self._aim: tuple[str, int, int] | None = None
        self._released, self._arrived = Event(), Event()

    def aim(self, fault: str | None, first: int = 1, count: int = 1) -> None:
        """Spoil `count` requests from a number on, counted from now, and no others."""
        with self._lock:
            self.requests = 0
            self._aim = (fault, first, count) if fault is not None else None

    def fate(self) -> str | None:
        """Return the fault of the next request, or None."""
        with self._lock:
            self.requests += 1
            fault = self._chosen()
            if fault is not None:
                self.spoilt[fault] += 1
            return fault

    def hold(self) -> None:
        """Hold the thread of a late request until its release."""
        self._released.wait(60)

    def release(self) -> None:
        """Release a late request, and wait for the server's answer."""
        self._released.set()
        assert self._arrived.wait(60)

    def report_arrival(self) -> None:
        """Report the server's answer to a late request."""
        self._arrived.set()

    def _chosen(self) -> str | None:
        if self._aim is not None:
            fault, first, count = self._aim
            return fault if first <= self.requests < first + count else None
        if self._random.random() >= self._rate:
            return None
        return self.kinds[next(self._turn) % len(self.kinds)]


@contextmanager
def faulty_store(endpoint: str, rate: float, seed: int) -> Iterator[FaultyStore]:
    """Yield a proxy; `rate` is the share of spoilt answers."""
    faulty = FaultyStore(endpoint, rate, seed)
    handler = type("Handler", (_Handler,), {"faulty": faulty})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        # Azurite's endpoint has the account as its path.
        faulty.endpoint = f"http://127.0.0.1:{server.server_port}{urlsplit(endpoint).path}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield faulty
        finally:
            faulty.ended.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faulty: FaultyStore

    def _pass_on(self) -> None:
        body, fate = self._body(), self.faulty.fate()
        if fate == STALLED:
            # The stall ends early if the server does.
            self.faulty.ended.wait(self.faulty.stall_seconds)
        if fate in (DROPPED, STALLED):
            self._hang_up()
        elif fate == THROTTLED:
            self._answer(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
        elif fate == LATE:
            self.faulty.hold()
            self._ask(body)
            self.faulty.report_arrival()
            self._hang_up()
        else:
            status, headers, answer = self._ask(body)
            if fate == SHORT:
                answer = answer[: len(answer) // 2]
            if fate == LOST:
                self._hang_up()
            else:
                self._answer(status, headers, answer, is_cut=fate == CUT and len(answer) > 1)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = HTTPConnection(self.faulty.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name != "Expect"}
        upstream.request(self.command, self.path, body or None, headers)
        answer: HTTPResponse = upstream.getresponse()
        content = answer.read()
        upstream.close()
        length = answer.headers.get("Content-Length", "0") if self.command == "HEAD" else None
        forwarded = {
            name: value
            for name, value in answer.headers.items()
            if name.lower() not in _OF_A_CONNECTION
        }
        return answer.status, forwarded | ({"Content-Length": length} if length else {}), content

    def _answer(
        self, status: int, headers: dict[str, str], body: bytes, *, is_cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._send(body[: len(body) // 2] if is_cut else body)
        if is_cut:
            self._hang_up()

    def _send(self, body: bytes) -> None:
        # A client need not read the whole body.
        with suppress(ConnectionError):
            for start in range(0, len(body), _SENT_AT_ONCE):
                part = body[start : start + _SENT_AT_ONCE]
                self.wfile.write(part)
                self.faulty.sent_bytes += len(part)

    def _hang_up(self) -> None:
        self.close_connection = True
        # A client that has stopped waiting has hung up already.
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
