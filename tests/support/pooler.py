"""A pooler of Postgres sessions in transaction mode, as PgBouncer is."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from queue import SimpleQueue
from threading import Thread

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_ENCRYPTION = {80877103, 80877104}  # requests for SSL and GSSAPI
_LENGTH = struct.Struct("!i")
_FAKE_KEY = b"K" + struct.pack("!iii", 12, 2_000_000_000, 1)
_READY = b"Z" + struct.pack("!ic", 5, b"I")
_SESSIONS = 4


class _Pipe:
    """One connection, read message by message."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._file = connection.makefile("rb")

    def message(self) -> bytes:
        """Return the next message with its kind."""
        kind = self._exactly(1)
        return kind + self.untyped()

    def untyped(self) -> bytes:
        """Return the next message, which has no kind."""
        length = self._exactly(4)
        return length + self._exactly(_LENGTH.unpack(length)[0] - 4)

    def send(self, message: bytes) -> None:
        """Send a message."""
        self.connection.sendall(message)

    def _exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise EOFError
        return found


@contextmanager
def pooled(dsn: str) -> Iterator[str]:
    """Yield the DSN of a pooler before a server; each transaction gets another session."""
    pool: SimpleQueue[_Pipe] = SimpleQueue()
    sessions = [_session(dsn) for _ in range(_SESSIONS)]
    for each in sessions:
        pool.put(each)
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=_accept, args=(server, pool), daemon=True).start()
        port = server.getsockname()[1]
        yield make_conninfo(dsn, host="127.0.0.1", port=port)
        server.shutdown(socket.SHUT_RDWR)
    for each in sessions:
        with closing(each.connection):
            each.send(b"X" + _LENGTH.pack(4))


def _session(dsn: str) -> _Pipe:
    parts = conninfo_to_dict(dsn)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"{parts['host']}/.s.PGSQL.{parts['port']}")
    pipe = _Pipe(connection)
    words = "user", parts["user"], "database", parts["dbname"], "application_name", "sparklake"
    body = (
        struct.pack("!i", 196608) + b"".join(str(word).encode() + b"\0" for word in words) + b"\0"
    )
    pipe.send(_LENGTH.pack(len(body) + 4) + body)
    while pipe.message()[:1] != b"Z":
        pass
    return pipe


def _accept(server: socket.socket, pool: SimpleQueue[_Pipe]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            Thread(target=_serve, args=(connection, pool), daemon=True).start()


def _serve(connection: socket.socket, pool: SimpleQueue[_Pipe]) -> None:
    client = _Pipe(connection)
    with connection, suppress(EOFError, OSError):
        while struct.unpack("!i", client.untyped()[4:8])[0] in _ENCRYPTION:
            client.send(b"N")
        settings = b"client_encoding\0UTF8\0"
        status = b"S" + _LENGTH.pack(len(settings) + 4) + settings
        client.send(b"R" + struct.pack("!ii", 8, 0) + status + _FAKE_KEY + _READY)
        while (message := client.message())[:1] != b"X":
            session = pool.get()
            status_byte = _exchange(client, session, message)
            while status_byte != b"I":
                status_byte = _exchange(client, session, client.message())
            pool.put(session)


def _exchange(client: _Pipe, session: _Pipe, message: bytes) -> bytes:
    """Forward messages up to a query or a sync, and the answer; return the new status."""
    session.send(message)
    while message[:1] not in (b"Q", b"S"):
        message = client.message()
        session.send(message)
    while (answer := session.message())[:1] != b"Z":
        client.send(answer)
    client.send(answer)
    return answer[-1:]
