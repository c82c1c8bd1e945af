"""One Postgres server: initialise, start, find and stop it, under the home's start lock."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from psycopg.conninfo import make_conninfo

from sparklake.errors import RefStoreUnavailableError
from sparklake.stores.embedded.binaries import programs
from sparklake.stores.embedded.folders import is_private
from sparklake.stores.embedded.home import SOCKET_PORT, Layout, socket_folder, start_lock
from sparklake.stores.embedded.locks import FileLock, locked

_START_SECONDS = 60
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.005
_ANSWER_SECONDS = 5.0
_LOG_LINES = 15
_LOG_BYTES = 16_384
_SUPERUSER = "postgres"
_SOCKET = f".s.PGSQL.{SOCKET_PORT}"
_CREDENTIALS = struct.Struct("3i")  # process, user and group
_SOCKET_LINE, _STATUS_LINE = 4, 7  # of postmaster.pid
_STOP_UNUSED = """
import sys
from pathlib import Path
from sparklake.stores.embedded import stop_unused
stop_unused(Path(sys.argv[1]))
"""
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
# fsync stays on, which is the default: lost refs cannot be restored.
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


def ensure_running(layout: Layout) -> str:
    """Return the connection string of the server, created and started if needed."""
    sockets = _running_sockets(layout)
    if sockets is None:
        wait_until_stopped(layout)
        sockets = socket_folder(layout)
        _clear_away(layout, sockets)
        _initialise(layout)
        _start(layout, sockets)
    return _dsn(sockets)


def ensure_watched(layout: Layout) -> None:
    """Start the watcher unless it is running, or this program has no interpreter."""
    python = Path(sys.executable or "")
    is_python = python.name.startswith(("python", "pypy")) and os.access(python, os.X_OK)
    with closing(FileLock(layout.watched)) as lock:
        if is_python and lock.try_take():
            stop_unused = (sys.executable, "-c", _STOP_UNUSED, str(layout.folder.parent))
            files = layout.holders, start_lock(layout.folder), _pid_file(layout)
            arguments = (*map(str, files), str(lock.fileno()), *stop_unused)
            # Without site-packages: a start takes 10 ms, and the sleeping process 5 MB.
            subprocess.run(  # noqa: S603 - the program is ours and there is no shell
                [sys.executable, "-IS", str(Path(__file__).with_name("watcher.py")), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
                pass_fds=[lock.fileno()],
                check=False,
            )


def find_running(layout: Layout) -> str | None:
    sockets = _ready_sockets(layout)
    return None if sockets is None else _dsn(sockets)


def _dsn(sockets: Path) -> str:
    return make_conninfo(
        host=str(sockets),
        port=SOCKET_PORT,
        user=_SUPERUSER,
        dbname="postgres",
        sslmode="disable",
        gssencmode="disable",
    )


def stop(layout: Layout) -> bool:
    """Shut the server down and wait; return False if none runs in this container."""
    pid = _postmaster(layout)
    if not pid:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGINT)
    _wait_while(layout, lambda: _is_alive(layout) and _ready(_pid_lines(layout)))
    return True


def wait_until_stopped(layout: Layout) -> None:
    """Wait for the server to exit. The start lock prevents a new start."""
    _wait_while(layout, lambda: _is_alive(layout))


def _wait_while(layout: Layout, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while condition():
        if time.monotonic() > deadline:
            raise RefStoreUnavailableError(
                f"a Postgres in {layout.data}, or a remainder of it after a crash, did not stop "
                f"within {_STOP_SECONDS:.0f} s. It may run in another container that does not "
                f"share the folder of its socket. See {layout.log}"
            )
        time.sleep(_POLL_SECONDS)


def _is_alive(layout: Layout) -> bool:
    """Return whether a process of the server, in any container, holds its inherited lock."""
    with closing(FileLock(layout.alive)) as lock:
        return not lock.try_take() or _postmaster(layout) is not None


def _postmaster(layout: Layout) -> int | None:
    """Return the live server's process id, or 0 if it is not visible."""
    lines = _pid_lines(layout)
    listener = _listener(layout, lines)
    if listener or not lines:
        return listener
    # Lazy import: psutil takes 10 ms, and is needed only if nobody listens.
    import psutil

    try:
        server = psutil.Process(int(lines[0]))
        if server.name() == "postgres" and Path(server.cwd()) == layout.data:
            return int(lines[0])
    except (ValueError, psutil.Error):
        pass
    return listener


def _listener(layout: Layout, lines: list[str]) -> int | None:
    """Return the process id of the socket's listener, 0 if the system hides it."""
    if len(lines) <= _SOCKET_LINE or not lines[_SOCKET_LINE]:
        return None
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_ANSWER_SECONDS)
        try:
            client.connect(str(Path(lines[_SOCKET_LINE]) / _SOCKET))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError:  # A server too busy to answer is not dead.
            return 0
        if sys.platform != "linux":
            return 0
        answer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(answer)
        return int(pid) if uid == layout.account.uid else None


def _running_sockets(layout: Layout) -> Path | None:
    if not _is_alive(layout):
        return None
    sockets = _ready_sockets(layout)
    if sockets is None:
        stop(layout)  # It is already stopping, or nobody can reach it.
    return sockets


def _ready_sockets(layout: Layout) -> Path | None:
    lines = _pid_lines(layout)
    if _ready(lines) and _listener(layout, lines) is not None:
        sockets = Path(lines[_SOCKET_LINE])
        if is_private(sockets, layout.account):
            return sockets
    return None


def _pid_lines(layout: Layout) -> list[str]:
    try:
        return _pid_file(layout).read_text().splitlines()
    except FileNotFoundError:
        return []


def _ready(lines: list[str]) -> bool:
    return len(lines) > _STATUS_LINE and lines[_STATUS_LINE].startswith("ready")


def _clear_away(layout: Layout, sockets: Path) -> None:
    """Remove a dead server's files: Postgres trusts its stale pid if another process has it."""
    for file in (_pid_file(layout), sockets / f"{_SOCKET}.lock"):
        file.unlink(missing_ok=True)


def _initialise(layout: Layout) -> None:
    """Create the data directory atomically."""
    if layout.data.exists():
        return
    fresh = layout.base / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    command = ["initdb", "--pgdata", str(fresh), "--username", _SUPERUSER, "--no-instructions"]
    command += ["--encoding", "UTF8", "--locale", "C"]
    # Trust is safe here: only the account itself can enter the folder of the socket.
    command += ["--auth", "trust"]
    settings = dict(_SETTINGS)
    if platform.system() == "Linux":  # One call instead of a thousand.
        command.append("--sync-method=syncfs")
        settings["recovery_init_sync_method"] = "syncfs"
    command += [f"--set={name}={value}" for name, value in settings.items()]
    _run(layout, command)
    fresh.rename(layout.data)


def _start(layout: Layout, sockets: Path) -> None:
    options = f"-k {shlex.quote(str(sockets))}"
    command = ["pg_ctl", "start", "--wait", "--timeout", str(_START_SECONDS), "--silent"]
    command += ["--pgdata", str(layout.data), "--log", str(layout.log), "--options", options]
    with locked(layout.alive, _STOP_SECONDS) as lock:
        _run(layout, command, lock.fileno())


def _run(layout: Layout, command: list[str], *inherited: int) -> None:
    """Run a Postgres program, with only the given descriptors inherited."""
    program = programs(layout.account) / command[0]
    with (
        subprocess.Popen(  # noqa: S603 - the program is ours and there is no shell
            [str(program), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            env=_ENVIRONMENT,
            start_new_session=True,
            pass_fds=inherited,
            text=True,
            errors="replace",
            **layout.account.spawn_options,
        ) as process
    ):
        assert process.stderr is not None
        try:
            errors = process.stderr.read()
        except BaseException:
            # Kill the whole group: a remaining process would disturb the next start. A
            # running server stays.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise RefStoreUnavailableError(
            f"{command[0]} failed in {layout.base}: {errors.strip()}\n{_log_tail(layout)}".rstrip()
        )


def _log_tail(layout: Layout) -> str:
    try:
        with layout.log.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _LOG_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(["the end of its log:", *lines[-_LOG_LINES:]])


def _pid_file(layout: Layout) -> Path:
    return layout.data / "postmaster.pid"
