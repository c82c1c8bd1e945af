"""A server that accepts connections and never answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread


class SilentServer:
    """The server's address, and whether it received anything."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heard = Event()

    @property
    def url(self) -> str:
        """Return the URL of the server as an S3 endpoint."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def silent_server() -> Iterator[SilentServer]:
    """Yield a server that reads from its clients and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = SilentServer(listening.getsockname()[1])
        connections: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    connected, _ = listening.accept()
                except OSError:
                    return
                connections.append(connected)
                Thread(target=hear, args=(connected,), daemon=True).start()

        def hear(connected: socket.socket) -> None:
            try:
                while connected.recv(1 << 16):
                    server.heard.set()
            except OSError:
                return

        Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for each in connections:
                each.close()
