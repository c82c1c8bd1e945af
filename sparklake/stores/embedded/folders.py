"""Private and safely shared folders. Existing permissions are never relaxed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sparklake.errors import RefStoreUnavailableError
from sparklake.stores.embedded.accounts import Account

SYSTEM_FOLDER = "SPARKLAKE_SYSTEM_FOLDER"
_DEFAULT_FOLDER = "/var/lib/sparklake"
_PRIVATE = 0o700
_ENTER_ONLY = 0o711


def private_folder(path: Path, owner: Account) -> Path:
    is_new = _make(path, _PRIVATE)
    if is_new and owner.uid != os.geteuid():
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
    if not is_private(path, owner):
        raise RefStoreUnavailableError(
            f"{path} is not a private folder of the account {owner.name!r} (mode 0700): "
            "change that, choose another home, or set the DSN of a Postgres"
        )
    return path


def is_private(path: Path, owner: Account) -> bool:
    """Return whether a path is a private folder, not a link."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == owner.uid and not status.st_mode & 0o077
    )


def system_folder(account: Account) -> Path:
    """Return root's data folder. Others may enter but not list it."""
    path = Path(os.environ.get(SYSTEM_FOLDER) or _DEFAULT_FOLDER).resolve()
    _make(path, _ENTER_ONLY)
    status = path.lstat()
    safe = stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and not status.st_mode & 0o022
    if not safe or not account.may_enter(path):
        raise RefStoreUnavailableError(
            f"{path} and the folders above it must be writable only for root and accessible "
            f"for {account.name!r} (mode 0711): change that, set {SYSTEM_FOLDER}, or "
            "set the DSN of a Postgres"
        )
    return path


def _make(path: Path, mode: int) -> bool:
    """Create a folder with exactly this mode; return whether it was missing."""
    try:
        path.mkdir(mode=mode)
    except FileExistsError:
        return False
    path.chmod(mode)  # The umask may have removed some bits.
    return True
