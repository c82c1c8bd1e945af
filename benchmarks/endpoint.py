"""An S3 endpoint for benchmarks: a server behind a proxy that adds latency and counts requests.

Each is a process of its own, so that it shares only the cores with the measured process. The server
is moto, or the program of versitygw, which takes a tenth of moto's CPU.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.measuring import SPAWN
from sparklake.testing.s3_server import REGION, s3_environment, s3_server

_CHUNK_BYTES = 1 << 16
_HEAD_END = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 "
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_WAITS = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running endpoint. `control` sends commands to the proxy."""

    url: str
    control: Connection

    def set_latency(self, seconds: float) -> None:
        """Delay every request from now on."""
        self.control.send(seconds)
        self.control.recv()

    def requests(self) -> Counter[str]:
        """Return the number of requests of each kind."""
        self.control.send(None)
        counts: Counter[str] = self.control.recv()
        return counts


@contextmanager
def s3_endpoint(program: Path | None = None, folder: Path | None = None) -> Iterator[Endpoint]:
    """Run a server and its proxy, without latency at first.

    `program` is that of versitygw, whose buckets are folders in `folder`.
    """
    with ExitStack() as stack:
        if program is None:
            upstream = stack.enter_context(_process(_serve)).recv()
        else:
            assert folder is not None
            upstream = stack.enter_context(versitygw(program, folder))
        control = stack.enter_context(_process(_proxy, upstream))
        yield Endpoint(control.recv(), control)


@contextmanager
def versitygw(program: Path, folder: Path) -> Iterator[str]:
    """Run the program; yield its URL."""
    environment = s3_environment("", folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = {
        "--port": f"127.0.0.1:{port}",
        "--access": environment["AWS_ACCESS_KEY_ID"],
        "--secret": environment["AWS_SECRET_ACCESS_KEY"],
        "--region": REGION,
    }
    options = [each for pair in arguments.items() for each in pair]
    with subprocess.Popen(
        [program, *options, "--quiet", "--keep-alive", "posix", folder], stdout=subprocess.DEVNULL
    ) as server:
        try:
            while True:
                with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


@contextmanager
def _process(target: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    """Run a function in a process, which ends when its first argument, a connection, is closed."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=target, args=(there, *arguments), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join()


def _serve(control: Connection) -> None:
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    with s3_server() as url:
        control.send(url)
        with suppress(EOFError):
            control.recv()


def _proxy(control: Connection, upstream: str) -> None:
    asyncio.run(_Proxy(upstream).run(control))


@dataclass(slots=True)
class _Proxy:
    upstream: str
    latency: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    async def run(self, control: Connection) -> None:
        """Serve until the control connection is closed."""
        closed = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        control.send(f"http://127.0.0.1:{port}")
        asyncio.get_running_loop().add_reader(control.fileno(), self._obey, control, closed)
        await closed.wait()

    def _obey(self, control: Connection, closed: asyncio.Event) -> None:
        try:
            order = control.recv()
        except EOFError:
            closed.set()
            return
        if order is not None:
            self.latency = order
        control.send(self.counts)

    async def _connected(self, client: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        host, _, port = urlsplit(self.upstream).netloc.partition(":")
        with socket.create_connection((host, int(port))) as server:
            server.setblocking(False)
            answers = _Answers(server, to)
            answering = loop.create_task(answers.pass_on())
            # Cancelled, too, is a connection whose client is still there when all ends.
            with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
                while True:
                    head = loop.create_task(client.readuntil(_HEAD_END))
                    await asyncio.wait([head, answering], return_when=asyncio.FIRST_COMPLETED)
                    if answering.done():
                        head.cancel()
                        break
                    await self._pass_on(await head, client, server, answers)
            answering.cancel()
        to.close()

    async def _pass_on(
        self, head: bytes, client: asyncio.StreamReader, server: socket.socket, answers: _Answers
    ) -> None:
        """Pass one request on; what the client sends in one go is late once."""
        if _CHUNKED.search(head):
            raise ValueError("the proxy takes requests of a given length only")
        self.counts[kind_of(head)] += 1
        await asyncio.sleep(self.latency)
        loop = asyncio.get_running_loop()
        answers.first = loop.create_future()
        await loop.sock_sendall(server, head)
        length = _LENGTH.search(head)
        left = int(length[1]) if length else 0
        if left and _WAITS.search(head):
            # The client sends the rest when the server has asked for it: a second way there.
            if not (await answers.first).startswith(_CONTINUE):
                return
            first = await client.read(min(left, _CHUNK_BYTES))
            await asyncio.sleep(self.latency)
            await answers.send(first)
            left -= len(first)
        while left:
            chunk = await client.readexactly(min(left, _CHUNK_BYTES))
            await answers.send(chunk)
            left -= len(chunk)


@dataclass(slots=True)
class _Answers:
    """The server's side of a connection.

    A server may answer and close before it has read a request, whose client reads the answer only
    when all is sent. `first` gets what the server says first after a request.
    """

    server: socket.socket
    to: asyncio.StreamWriter
    first: asyncio.Future[bytes] | None = None

    async def send(self, chunk: bytes) -> None:
        """Send a part of a request's body, unless the server has closed the connection."""
        with suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self.server, chunk)

    async def pass_on(self) -> None:
        """Pass answers to the client until the server closes the connection."""
        chunk = b" "
        while chunk:
            try:
                chunk = await asyncio.get_running_loop().sock_recv(self.server, _CHUNK_BYTES)
            except ConnectionError:
                chunk = b""
            if self.first is not None and not self.first.done():
                self.first.set_result(chunk)
            self.to.write(chunk)
            await self.to.drain()


def kind_of(head: bytes) -> str:
    """Return the method and the kind of object: a table (range or metarange), or another one."""
    method, target, _ = head.split(b" ", 2)
    url = urlsplit(target.decode())
    if "list-type" in url.query:
        return "LIST"
    about = "table" if re.search(r"/_lakefs/[0-9a-f]{64}$", url.path) else "other"
    return f"{method.decode()} {about}"
