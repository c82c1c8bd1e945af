"""System accounts of processes, and their file permissions."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from sparklake.errors import RefStoreUnavailableError

_UNPRIVILEGED = ("postgres", "nobody")

_READ, _ENTER = 0o4, 0o1


class SpawnOptions(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """A system account, without its supplementary groups."""

    name: str
    uid: int
    gid: int

    @property
    def spawn_options(self) -> SpawnOptions:
        """The options to run a subprocess as this account; empty for our own account."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def may_read(self, path: Path) -> bool:
        path = path.resolve()
        return all(self._has(folder, _ENTER) for folder in path.parents) and self._has(path, _READ)

    def may_enter(self, folder: Path) -> bool:
        folder = folder.resolve()
        return all(self._has(part, _ENTER) for part in (folder, *folder.parents))

    def _has(self, path: Path, bit: int) -> bool:
        if self.uid == 0:
            return True
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode >> 6 & bit)
        if status.st_gid == self.gid:
            return bool(status.st_mode >> 3 & bit)
        return bool(status.st_mode & bit)


def owner_account(folder: Path) -> Account:
    """Return our own account; for root, the owner of an existing folder."""
    uid = os.geteuid()
    return _account_of(folder.stat().st_uid if uid == 0 and folder.exists() else uid)


def unprivileged_account() -> Account:
    """Return an unprivileged account to run as instead of root."""
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise RefStoreUnavailableError(
        "Postgres does not run as root, and there is no account 'postgres' or 'nobody' to "
        "run it as: work as an ordinary user, or set the DSN of a Postgres"
    )


def _account_of(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise RefStoreUnavailableError(
            f"Postgres does not run under user id {uid}, which has no account: add one, or "
            "set the DSN of a Postgres"
        ) from None
    gid = os.getegid() if uid == os.geteuid() else entry.pw_gid
    return Account(entry.pw_name, uid, gid)
