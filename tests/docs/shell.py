"""A bash that runs the snippets of a page one after the other, as a reader's terminal does."""

from __future__ import annotations

import os
import select
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.docs.commands import answer

_CODES = 9
"""The descriptor to which bash writes a byte after each snippet."""


class Ran(NamedTuple):
    """The exit code and the output of a snippet."""

    code: int
    output: str


class Shell:
    """A running bash. A command that fails ends it, as `set -e` says."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        codes: int,
        folder: Path,
        listener: socket.socket | None,
    ) -> None:
        self._process = process
        self._codes = codes
        self._folder = folder
        self._listener = listener
        self._count = 0

    def run(self, text: str, expected: int = 0) -> Ran:
        """Run a snippet. With an expected exit code, it runs in a subshell of its own."""
        self._count += 1
        script = self._folder / f"{self._count}.sh"
        output = script.with_suffix(".out")
        script.write_text(text + "\n", encoding="utf-8")
        source = f". {script}"
        if expected:
            # Neither || nor an if around it: bash would then ignore `set -e` in it.
            source = f"set +e; (set -e; {source}); code=$?; set -e; (exit $((code != {expected})))"
        line = f"{{ {source}; }} </dev/null >{output} 2>&1; echo >&{_CODES}\n"
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()
        code = self._process.wait() if self._has_ended() else 0
        return Ran(code, output.read_text(encoding="utf-8", errors="replace"))

    def _has_ended(self) -> bool:
        """Wait for the end of a snippet, and run its commands meanwhile; tell if bash ended."""
        waiting: list[int | socket.socket] = [self._codes]
        if self._listener is not None:
            waiting.append(self._listener)
        while True:
            ready, _, _ = select.select(waiting, [], [])
            if self._codes in ready:
                return not os.read(self._codes, 1)
            assert self._listener is not None
            answer(self._listener)


@contextmanager
def running_shell(
    environment: Mapping[str, str], home: Path, listener: socket.socket | None
) -> Iterator[Shell]:
    """Run bash in a home. Snippets and outputs are kept next to it."""
    folder = home.with_name("snippets")
    folder.mkdir()
    read, write = os.pipe()
    command = ["bash", "-c", f"exec {_CODES}>&{write}; exec bash -e"]
    with subprocess.Popen(
        command, cwd=home, env=dict(environment), stdin=subprocess.PIPE, pass_fds=[write]
    ) as process:
        os.close(write)
        try:
            yield Shell(process, read, folder, listener)
        finally:
            os.close(read)
            assert process.stdin is not None
            process.stdin.close()
