"""Settings: what a lake is opened with.

An argument wins over the environment, that over the settings file, that over the default. The file
is the one that SPARKLAKE_CONFIG names, or `sparklake.toml` in the home folder where there is one.
"""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from sparklake.errors import InvalidInputError

SETTINGS_FILE = "sparklake.toml"
_ANONYMOUS = "anonymous"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (a mount point, not a guessable file)
_PLENTY_BYTES = 2 * 1024**3


class Engine(str, Enum):
    """Is where the tasks of a plan run."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Settings:
    """Is the configuration of one lake.

    `home` holds the embedded Postgres, used when there is no `dsn`. `committer` signs what a call
    does not sign.
    """

    home: Path
    dsn: str | None
    committer: str
    engine: Engine = Engine.AUTO


class FileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Is what a settings file may say."""

    dsn: str | None = None
    committer: str | None = None
    engine: Engine | None = None


def load_settings(
    home: str | Path | None = None,
    dsn: str | None = None,
    engine: Engine | None = None,
) -> Settings:
    """Returns settings; raises InvalidInputError for a settings file that cannot be used.

    The environment is SPARKLAKE_HOME, SPARKLAKE_CONFIG, SPARKLAKE_DSN and SPARKLAKE_COMMITTER.
    """
    folder = _home(home)
    from_file = _find_file_settings(folder)
    return Settings(
        home=folder,
        dsn=dsn or os.environ.get("SPARKLAKE_DSN") or from_file.dsn or None,
        committer=os.environ.get("SPARKLAKE_COMMITTER") or from_file.committer or _user(),
        engine=engine or from_file.engine or Engine.AUTO,
    )


def read_settings_file(path: Path) -> FileSettings:
    """Reads a settings file; raises InvalidInputError naming the file and what is wrong in it."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=FileSettings)
    except OSError as error:
        raise InvalidInputError(f"cannot read the settings file {path}: {error.strerror}") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInputError(
            f"the settings file {path} cannot be used: {error}. "
            f"It may set: {', '.join(FileSettings.__struct_fields__)}"
        ) from None


def disk_root() -> Path:
    """Returns the folder for large temporary files: SPARKLAKE_SCRATCH, or the system's."""
    return Path(os.environ.get("SPARKLAKE_SCRATCH") or tempfile.gettempdir())


def fast_root() -> Path:
    """Returns the folder for small temporary files: in memory where there is plenty."""
    try:
        free = shutil.disk_usage(_SHARED_MEMORY).free
    except OSError:
        return disk_root()
    writable = os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return _SHARED_MEMORY if writable and free >= _PLENTY_BYTES else disk_root()


def _home(home: str | Path | None) -> Path:
    try:
        chosen = Path(home or os.environ.get("SPARKLAKE_HOME") or Path.home() / ".sparklake")
        return chosen.expanduser().absolute()
    except RuntimeError:
        raise InvalidInputError(
            "this user has no home folder: say where the lake's own files go in SPARKLAKE_HOME"
        ) from None


def _find_file_settings(home: Path) -> FileSettings:
    named = os.environ.get("SPARKLAKE_CONFIG")
    if named:
        return read_settings_file(Path(named).expanduser())
    path = home / SETTINGS_FILE
    return read_settings_file(path) if path.is_file() else FileSettings()


def _user() -> str:
    """Returns the user's name; a container's user may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return _ANONYMOUS
