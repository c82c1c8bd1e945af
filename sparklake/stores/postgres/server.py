"""One Postgres server: made, started, found running, stopped.

Whoever starts or stops it holds the home's lock for that.
"""

from __future__ import annotations

import platform
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from psycopg.conninfo import make_conninfo

from sparklake.errors import RefStoreUnavailableError
from sparklake.stores.postgres.binaries import programs
from sparklake.stores.postgres.folders import is_private
from sparklake.stores.postgres.layout import SOCKET_PORT, Layout, socket_folder

_START_SECONDS = 60
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.005
_LOG_LINES = 15
_LOG_BYTES = 16_384
_SUPERUSER = "postgres"
_SOCKET_LINE, _STATUS_LINE = 4, 7  # of postmaster.pid
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
# fsync stays on, as it is by default: refs are the one thing that cannot be made again.
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


def ensure_running(layout: Layout) -> str:
    """Returns the connection string of the server, made and started if need be."""
    sockets = _running_sockets(layout)
    if sockets is None:
        wait_until_stopped(layout)
        sockets = socket_folder(layout)
        _clear_away(layout, sockets)
        _initialise(layout)
        _start(layout, sockets)
    return make_conninfo(
        host=str(sockets),
        port=SOCKET_PORT,
        user=_SUPERUSER,
        dbname="postgres",
        sslmode="disable",
        gssencmode="disable",
    )


def stop(layout: Layout) -> None:
    """Tells the server to end all sessions and shut down; does not wait until it has.

    It waits for the server to say that it is stopping, a matter of milliseconds, so that the next
    process does not believe it ready.
    """
    server = _postmaster(layout)
    if server is None:
        return
    with suppress(psutil.NoSuchProcess):
        server.send_signal(signal.SIGINT)
    _wait_while(layout, lambda: _postmaster(layout) is not None and _seems_ready(layout))


def wait_until_stopped(layout: Layout) -> None:
    """Waits until the server is gone."""
    _wait_while(layout, lambda: _postmaster(layout) is not None)


def _wait_while(layout: Layout, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while condition():
        if time.monotonic() > deadline:
            raise RefStoreUnavailableError(
                f"a Postgres in {layout.data}, or what is left of one after a crash, does not end "
                f"within {_STOP_SECONDS:.0f} s; see {layout.log}"
            )
        time.sleep(_POLL_SECONDS)


def _postmaster(layout: Layout) -> psutil.Process | None:
    """Returns the running server of this data directory.

    The file with its process id may be left over, and the id taken by a stranger since.
    """
    try:
        server = psutil.Process(int(_pid_file(layout).read_text().split()[0]))
        alive = server.status() != psutil.STATUS_ZOMBIE
        return server if alive and _belongs(server, layout) else None
    except (FileNotFoundError, IndexError, ValueError, psutil.Error):
        return None


def _belongs(process: psutil.Process, layout: Layout) -> bool:
    return process.name() == "postgres" and Path(process.cwd()) == layout.data


def _running_sockets(layout: Layout) -> Path | None:
    """Returns the folder of the running server's socket, if it is still there and private."""
    if _postmaster(layout) is None:
        return None
    sockets = _ready_sockets(layout)
    if sockets and is_private(sockets, layout.account) and _socket_lock(sockets).exists():
        return sockets
    stop(layout)  # It is on its way down already, or nobody can reach it.
    return None


def _ready_sockets(layout: Layout) -> Path | None:
    """Returns what the server itself has noted, once it accepts sessions."""
    try:
        lines = _pid_file(layout).read_text().splitlines()
    except FileNotFoundError:
        return None
    ready = len(lines) > _STATUS_LINE and lines[_STATUS_LINE].startswith("ready")
    return Path(lines[_SOCKET_LINE]) if ready else None


def _seems_ready(layout: Layout) -> bool:
    return _ready_sockets(layout) is not None


def _clear_away(layout: Layout, sockets: Path) -> None:
    """Removes what a server that crashed has left lying.

    Postgres believes a left-over process id if any process has it now, be it only a dead one that
    nobody has waited for.
    """
    left_over = [_pid_file(layout), _socket_lock(sockets)]
    if not any(file.exists() for file in left_over):
        return
    _wait_while(layout, lambda: _orphans(layout))
    for file in left_over:
        file.unlink(missing_ok=True)


def _orphans(layout: Layout) -> bool:
    """Tells whether a session process has outlived its server."""
    for process in psutil.process_iter():
        try:
            if _belongs(process, layout):
                return True
        except psutil.Error:
            continue
    return False


def _initialise(layout: Layout) -> None:
    """Makes the data directory, whole or not at all."""
    if layout.data.exists():
        return
    fresh = layout.base / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    command = ["initdb", "--pgdata", str(fresh), "--username", _SUPERUSER, "--no-instructions"]
    command += ["--encoding", "UTF8", "--locale", "C"]
    # Trust is right here because only the account itself can enter the folder of the socket.
    command += ["--auth", "trust"]
    settings = dict(_SETTINGS)
    if platform.system() == "Linux":  # One call in place of a thousand.
        command.append("--sync-method=syncfs")
        settings["recovery_init_sync_method"] = "syncfs"
    command += [f"--set={name}={value}" for name, value in settings.items()]
    _run(layout, command)
    fresh.rename(layout.data)


def _start(layout: Layout, sockets: Path) -> None:
    options = f"-k {shlex.quote(str(sockets))}"
    command = ["pg_ctl", "start", "--wait", "--timeout", str(_START_SECONDS), "--silent"]
    command += ["--pgdata", str(layout.data), "--log", str(layout.log), "--options", options]
    _run(layout, command)


def _run(layout: Layout, command: list[str]) -> None:
    """Runs a program of Postgres; the server that it starts holds none of our files open."""
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
            text=True,
            errors="replace",
            **layout.account.spawn_options,
        ) as process
    ):
        assert process.stderr is not None
        said = process.stderr.read()
    if process.returncode:
        raise RefStoreUnavailableError(
            f"{command[0]} failed in {layout.base}: {said.strip()}\n{_log_tail(layout)}".rstrip()
        )


def _log_tail(layout: Layout) -> str:
    try:
        with layout.log.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _LOG_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(["the end of its log:", *lines[-_LOG_LINES:]])


def _socket_lock(sockets: Path) -> Path:
    return sockets / f".s.PGSQL.{SOCKET_PORT}.lock"


def _pid_file(layout: Layout) -> Path:
    return layout.data / "postmaster.pid"
