"""A web server for webhooks. The path of a request chooses the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

PATIENCE_SECONDS = 30.0


@dataclass
class HookServer:
    """The received posts. Slow answers end when `is_over` is set."""

    url: str
    posted: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    is_over: Event = field(default_factory=Event)

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.posted]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hooks = HookServer(f"http://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.hooks.posted.append((self.path, dict(self.headers), json.loads(body)))
        with suppress(OSError):
            self.answer()

    def answer(self) -> None:
        name = self.path.strip("/").partition("?")[0]
        if name.isdecimal():
            self.say(int(name), b"as asked", {"Location": "/200"})
        elif name == "echo":
            self.say(403, f"{self.headers['Authorization']} at {self.path}".encode())
        elif name == "loop":
            self.say(307, b"", {"Location": "/loop"})
        elif name.startswith("to-"):
            self.say(307, b"", {"Location": name.removeprefix("to-").replace("_", "/")})
        elif name == "silent":
            self.server.hooks.is_over.wait(PATIENCE_SECONDS)
        elif name in ("drip", "flood"):
            self.stream(b"x" if name == "drip" else b"x" * 65536)

    def say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, part: bytes) -> None:
        """Answer 200 with an endless body."""
        self.send_response(200)
        self.end_headers()
        while not self.server.hooks.is_over.wait(0.01):
            self.wfile.write(part)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def hook_server() -> Iterator[HookServer]:
    """Run a server on this machine's own address."""
    with _Server() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.hooks
        finally:
            server.hooks.is_over.set()
            server.shutdown()
            thread.join()
