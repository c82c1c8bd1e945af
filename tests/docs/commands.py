"""Commands of a shell that this process runs, in its Spark session if there is one."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.cli.running import run

VARIABLE = "SPARKLAKE_TEST_COMMANDS"
"""The path of the socket, for setups/session/sparklake."""


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listen for commands on a socket in a folder with a short name."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield listener


def answer(listener: socket.socket) -> None:
    """Run one command; return its output and its exit code to the shell."""
    connection, _ = listener.accept()
    with connection:
        given: dict[str, Any] = json.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
        here = Path.cwd()
        os.chdir(given["folder"])
        try:
            with mock.patch.dict(os.environ, given["environment"], clear=True):
                ran = run(*given["arguments"], stdin=given["stdin"].encode())
        finally:
            os.chdir(here)
        result = {"out": ran.text, "err": ran.err, "code": ran.code}
        connection.sendall(json.dumps(result).encode())
