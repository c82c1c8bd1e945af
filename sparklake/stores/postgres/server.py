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
_SOCKET_LINE = 4
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
    """Tells the server to end all sessions and shut down; does not wait for it."""
    server = _postmaster(layout)
    if server is not None:
        server.send_signal(signal.SIGINT)


def wait_until_stopped(layout: Layout) -> None:
    """Waits until no process of the server is left, for a while."""
    deadline = time.monotonic() + _STOP_SECONDS
    while (server := _postmaster(layout)) is not None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if server is not None:
        raise RefStoreUnavailableError(
            f"the Postgres with process id {server.pid} does not end; see {layout.log}"
        )


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
    server = _postmaster(layout)
    if server is None:
        return None
    lines = _pid_file(layout).read_text().splitlines()
    if len(lines) > _SOCKET_LINE + 3 and lines[_SOCKET_LINE + 3].startswith("ready"):
        sockets = Path(lines[_SOCKET_LINE])
        if is_private(sockets, layout.account) and _socket_lock(sockets).exists():
            return sockets
    # It is stopping, or nobody can reach it any more.
    stop(layout)
    return None


def _clear_away(layout: Layout, sockets: Path) -> None:
    """Removes what a server that crashed has left lying.

    Postgres believes a left-over process id if any process has it now, be it only a dead one that
    nobody has waited for.
    """
    left_over = [_pid_file(layout), _socket_lock(sockets)]
    if not any(file.exists() for file in left_over):
        return
    deadline = time.monotonic() + _STOP_SECONDS
    while _orphans(layout):
        if time.monotonic() > deadline:
            raise RefStoreUnavailableError(
                f"a Postgres in {layout.data} has crashed, and some of its processes do not end"
            )
        time.sleep(_POLL_SECONDS)
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
