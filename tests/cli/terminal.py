"""Runs the command on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

SCRIPT = Path(sys.executable).with_name("sparklake")


def on_terminal(
    *words: str,
    command: Sequence[str | Path] = (SCRIPT,),
    stdout: IO[bytes] | None = None,
    **environment: str,
) -> str:
    """Run the command on a terminal, or its stderr only; return what is to be seen there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*command, *words],
        stdin=theirs,
        stdout=stdout or theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "PAGER": "cat", **environment},
    )
    os.close(theirs)
    seen = screen(ours)
    assert process.wait() == 0, seen
    return seen.decode()


def screen(ours: int) -> bytes:
    """Return what is written to a terminal until its last writer has gone, and close it."""
    seen = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # how Linux says that the last writer has gone
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    return seen
