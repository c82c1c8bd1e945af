"""Runs jobs in this process."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest import mock

from sparklake.jobs.run import main
from tests.cli.running import Ran


def run(name: str, *arguments: str, stdin: bytes = b"") -> Ran:
    """Run a command such as `branch create` as a job, whatever comes of it."""
    out, err, given = (io.TextIOWrapper(io.BytesIO(raw), "utf-8") for raw in (b"", b"", stdin))
    with redirect_stdout(out), redirect_stderr(err), mock.patch.object(sys, "stdin", given):
        code = main([*name.split(), *arguments])
        out.flush()
        err.flush()
    return Ran(code, out.buffer.getvalue(), err.buffer.getvalue().decode())  # type: ignore[attr-defined]


def job(code: int, name: str, *arguments: str, stdin: bytes = b"") -> Any:
    """Run a job; return what it prints."""
    ran = run(name, *arguments, stdin=stdin)
    assert ran.code == code, ran
    return ran.json
