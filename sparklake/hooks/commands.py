"""Shell hooks: commands on this machine."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from sparklake.hooks.events import HookOutcome, failed, passed
from sparklake.hooks.properties import ShellHook, seconds
from sparklake.hooks.secrets import RAW_BYTES, Secrets

_PLAIN = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
_READ_BYTES = 16 * 1024
_POLL_SECONDS = 0.1


def run_command(shell: ShellHook, document: Mapping[str, Any], secrets: Secrets) -> HookOutcome:
    """Run a command in an empty folder, with the event as JSON on stdin.

    Its environment has the event's strings as SPARKLAKE_HOOK_..., a few standard variables, and the
    allowed variables. On a timeout, it is killed with all its child processes.
    """
    strings = ((name, each) for name, each in document.items() if isinstance(each, str))
    environment = {
        **{name: os.environ[name] for name in _PLAIN if name in os.environ},
        **secrets.variables(),
        **{f"SPARKLAKE_HOOK_{name.upper()}": each for name, each in strings},
    }
    limit = seconds(shell.timeout)
    with (
        tempfile.TemporaryDirectory(prefix="sparklake-hook-") as folder,
        tempfile.TemporaryFile() as stdin,
    ):
        stdin.write(json.dumps(document).encode())
        stdin.seek(0)
        try:
            code, raw, is_cut = _run(shell.words, environment, folder, stdin, limit)
        except OSError as error:
            return failed(f"{shell.words[0]!r} cannot be run: {error.strerror or error}")
    output = secrets.kept(raw.decode(errors="replace"), is_cut=is_cut)
    if code is None:
        return failed(f"{output}\nnot finished after {limit:g} seconds".lstrip())
    return passed(output) if code == 0 else failed(f"{output}\nexit code {code}".lstrip())


def _run(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    stdin: IO[bytes],
    limit: float,
) -> tuple[int | None, bytes, bool]:
    """Return the exit code (None on a timeout), the end of the output, and if it is truncated."""
    deadline = time.monotonic() + limit
    process = subprocess.Popen(  # noqa: S603  (settings have allowed it)
        words,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    is_done = False
    try:
        raw, is_cut = _read(process, deadline)
        code = process.wait(max(0.0, deadline - time.monotonic()))
        is_done = True
        return code, raw, is_cut
    except subprocess.TimeoutExpired as over:
        return None, over.output or b"", False
    finally:
        if not is_done:
            # The process was not waited for, so its id cannot have been reused.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bool]:
    """Read the output to its end, and return its last bytes.

    Raises TimeoutExpired with these bytes. Background processes that keep the output open are not
    waited for.
    """
    assert process.stdout is not None
    raw, is_cut, had_ended = b"", False, False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise subprocess.TimeoutExpired(process.args, 0, raw)
            if selector.select(min(remaining, _POLL_SECONDS)):
                part = os.read(process.stdout.fileno(), _READ_BYTES)
                if not part:
                    return raw, is_cut
                is_cut = is_cut or len(raw) + len(part) > RAW_BYTES
                raw = (raw + part)[-RAW_BYTES:]
            elif had_ended:
                return raw, is_cut
            had_ended = process.poll() is not None
