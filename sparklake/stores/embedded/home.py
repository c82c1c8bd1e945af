"""The file layout of a home's embedded Postgres. A note points to data and socket elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from sparklake.errors import CorruptFileError, RefStoreUnavailableError
from sparklake.graveler.json_errors import decode_json
from sparklake.stores.embedded.accounts import Account, owner_account, unprivileged_account
from sparklake.stores.embedded.folders import (
    SYSTEM_FOLDER,
    is_private,
    private_folder,
    system_folder,
)
from sparklake.stores.objects.local.files import sync, whole_file

SOCKET_PORT = 5432
_MAX_SOCKET_PATH = 103  # The limit of the strictest system, without the closing NUL.


@dataclass(frozen=True, slots=True)
class Layout:
    """The locations of files: locks and the note in `folder`, data and log in `base`."""

    folder: Path
    base: Path
    account: Account

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def log(self) -> Path:
        return self.base / "log"

    @property
    def holders(self) -> Path:
        """The lock file of the server's users. Each holds a shared lock."""
        return self.folder / "holders.lock"

    @property
    def alive(self) -> Path:
        return self.folder / "server.lock"

    @property
    def watched(self) -> Path:
        return self.folder / "watcher.lock"


def home_folder(home: Path) -> Path:
    """Return our folder in a home, created as private if needed.

    As root, a new folder in a home that Postgres' account can enter belongs to that account.
    """
    # Others may enter but not list a new home of root.
    home.mkdir(mode=0o700 if os.geteuid() else 0o711, parents=True, exist_ok=True)
    folder = home.resolve() / "postgres"
    owner = owner_account(folder)
    if owner.uid == 0 and not folder.exists() and not os.environ.get(SYSTEM_FOLDER):
        account = unprivileged_account()
        owner = account if account.may_enter(folder.parent) else owner
    return private_folder(folder, owner)


def start_lock(folder: Path) -> Path:
    """Return the lock file for layouts, and for starts and stops of the server."""
    return folder / "start.lock"


def prepare_layout(folder: Path) -> Layout:
    """Return the layout of a home, created if needed. The caller holds the start lock."""
    owner = owner_account(folder)
    if owner.uid != 0:
        return Layout(folder, folder, owner)
    account = unprivileged_account()
    return Layout(folder, _system_base(folder, account), account)


def find_layout(home: Path) -> Layout | None:
    folder = home.resolve() / "postgres"
    if not folder.is_dir():
        return None
    owner = owner_account(folder)
    if owner.uid != 0:
        return Layout(folder, folder, owner)
    base = _read_note(folder).get("base")
    return None if base is None else Layout(folder, Path(base), unprivileged_account())


def socket_folder(layout: Layout) -> Path:
    """Return a private folder with a path short enough for a socket."""
    usual = layout.base / "socket"
    if _fits(usual):
        return private_folder(usual, layout.account)
    sockets = _sound_note(layout.folder).get("sockets")
    if sockets and is_private(Path(sockets), layout.account):
        return Path(sockets)
    place = _short_folder(layout.account)
    _write_note(layout.folder, {"sockets": str(place)})
    return place


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / f".s.PGSQL.{SOCKET_PORT}")) <= _MAX_SOCKET_PATH


def _short_folder(account: Account) -> Path:
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108 - made private by mkdtemp
        if parent and os.access(parent, os.W_OK) and _fits(Path(parent, "sparklake-12345678")):
            place = Path(tempfile.mkdtemp(prefix="sparklake-", dir=parent))
            if account.uid != os.geteuid():
                os.chown(place, account.uid, account.gid)
            return place
    raise RefStoreUnavailableError(
        "no temporary folder has a path short enough for a socket: set TMPDIR to a shorter one"
    )


def _system_base(folder: Path, account: Account) -> Path:
    """Return the home's own folder in the system folder. A moved home keeps it, a copy fails."""
    root = system_folder(account)
    name = hashlib.sha256(os.fsencode(folder.parent)).hexdigest()[:16]
    try:
        note = _read_note(folder, moved=True)
    except CorruptFileError as error:
        raise _lost_base(folder, sorted(root.glob(f"{name}-*")), error) from error
    if "base" not in note:
        note = {"base": str(root / f"{name}-{uuid4().hex[:16]}")}
        _write_note(folder, note)
    elif note["home"] != str(folder.parent):
        if _sound_note(Path(note["home"]) / folder.name).get("base") == note["base"]:
            raise RefStoreUnavailableError(
                f"{folder.parent} is a copy of {note['home']}, whose refs were not copied "
                f"with it: delete {folder} to start without refs, or use another home"
            )
        _write_note(folder, {"base": note["base"]})
    return private_folder(Path(note["base"]), account)


def _lost_base(
    folder: Path, bases: Sequence[Path], error: CorruptFileError
) -> RefStoreUnavailableError:
    """Return the error for a damaged note. An empty database would hide all refs."""
    of_home = f', "home": "{folder.parent}"}}'
    notes = " or ".join(
        f'{{"base": "{each}"{of_home}' for each in bases if (each / "data").exists()
    )
    return RefStoreUnavailableError(
        f"{error}, or write into it the location of the refs of {folder.parent}: "
        f"{notes or 'no folder was found under the path of this home, so it was moved'}"
    )


def _sound_note(folder: Path) -> dict[str, str]:
    """Return the note of a home, or nothing if it is damaged."""
    try:
        return _read_note(folder)
    except CorruptFileError:
        return {}


def _read_note(folder: Path, *, moved: bool = False) -> dict[str, str]:
    """Return the note of a home; with `moved`, even a note written for another home."""
    file = folder / "place.json"
    try:
        note = decode_json(file.read_bytes(), dict[str, str], str(file))
    except FileNotFoundError:
        return {}
    if "home" not in note:
        raise CorruptFileError(f"{file} is damaged (no home): restore the file from a backup")
    return note if moved or note["home"] == str(folder.parent) else {}


def _write_note(folder: Path, entries: dict[str, str]) -> None:
    """Write the note of a home, durable on return: a power cut must not leave an empty one."""
    note = {**_sound_note(folder), **entries, "home": str(folder.parent)}
    with whole_file(folder / "place.json") as scratch:
        scratch.write_text(json.dumps(note))
        sync([scratch])
    sync([folder])
