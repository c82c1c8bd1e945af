"""Settings of a lake, in order: arguments, environment, settings file, defaults."""

from __future__ import annotations

import getpass
import math
import os
import re
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.choices import BucketWrites as BucketWrites
from sparklake.choices import Engine as Engine
from sparklake.choices import parse_choice
from sparklake.errors import InvalidInputError

if TYPE_CHECKING:
    from sparklake.settings_file import FileSettings

SETTINGS_FILE = "sparklake.toml"
BUCKET_CONNECT_SECONDS = "SPARKLAKE_BUCKET_CONNECT_SECONDS"
BUCKET_READ_SECONDS = "SPARKLAKE_BUCKET_READ_SECONDS"
JARS_FOLDER = "SPARKLAKE_JARS"
_ANONYMOUS = "anonymous"
DEFAULT_CACHE_BYTES = 4 * 1024**3

ENVIRONMENT = {
    "SPARKLAKE_HOME": "The home: the folder of the embedded Postgres and of the settings file. "
    "Default: `~/.sparklake`.",
    "SPARKLAKE_CONFIG": "The path of the settings file. Default: `sparklake.toml` in the home.",
    "SPARKLAKE_SCRATCH": "The folder for large temporary files, such as those of table writes. "
    "Default: the system's.",
    "SPARKLAKE_SYSTEM_FOLDER": "The folder for the data of the embedded Postgres if it is started "
    "as root. Default: the home if the account `postgres` can enter it, or `/var/lib/sparklake`.",
    JARS_FOLDER: "A folder of jars for Spark sessions that sparklake starts, such as those of "
    "Delta or of Hadoop's S3 client. Default: none; Delta's are downloaded.",
    "SPARKLAKE_KERNELS": "`off` runs everything in Python, even if compiled kernels are installed.",
}
"""The meaning of each variable without a setting in the file."""

_FILE_ONLY = frozenset({"engine"})


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The disk cache of remote tree files. None is the machine's default, 0 bytes disables it."""

    folder: str | None = None
    max_bytes: int | None = None


NO_CACHE = CacheSettings(max_bytes=0)


class HookType(str, Enum):
    """The type of a hook. The last two are lakeFS's and never run here."""

    PYTHON = "python"
    SHELL = "shell"
    WEBHOOK = "webhook"
    LUA = "lua"
    AIRFLOW = "airflow"


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The hooks that this process may run. Anyone who may write to a branch declares hooks.

    `allow` has types (`webhook`), also with a pattern of the target (`python:checks.**`). `skip`
    has types and events, `private` private hosts and networks for webhooks, and `env` patterns of
    visible variables.
    """

    allow: tuple[str, ...] = ("webhook",)
    skip: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


WEBHOOKS_ONLY = HookSettings()


@dataclass(frozen=True, slots=True)
class BucketTimeouts:
    """The timeouts of requests to buckets: to connect, and for the next bytes."""

    connect_seconds: float = 5.0
    read_seconds: float = 30.0


_TIMEOUTS = BucketTimeouts()


@dataclass(frozen=True, slots=True)
class OnceSettings:
    """The lifetime of idempotency keys, and the wait for a concurrent run with the same key."""

    days: float = 7.0
    wait_seconds: float = 600.0

    @property
    def lifetime(self) -> timedelta:
        """The lifetime of a key."""
        return timedelta(days=self.days)


DEFAULT_ONCE = OnceSettings()
_EVENT = re.compile("[a-z]+(-[a-z]+)+")
_MAX_ONCE_DAYS = 36_500.0
_MAX_ONCE_SECONDS = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of one lake.

    `home` is the folder of the embedded Postgres, used without `dsn`. `workers` is the number of
    threads that share a plan on this machine; None derives it from the cores.
    """

    home: Path
    dsn: str | None
    committer: str
    engine: Engine = Engine.AUTO
    cache: CacheSettings = CacheSettings()
    workers: int | None = None
    hooks: HookSettings = WEBHOOKS_ONLY
    bucket_writes: BucketWrites = BucketWrites.AUTO
    bucket_timeouts: BucketTimeouts = _TIMEOUTS
    once: OnceSettings = DEFAULT_ONCE


def environment_name(setting: str) -> str | None:
    """Return the overriding variable of a setting, or None."""
    return None if setting in _FILE_ONLY else f"SPARKLAKE_{setting.upper()}"


def load_settings(
    home: str | Path | None = None, dsn: str | None = None, engine: Engine | None = None
) -> Settings:
    """Return the settings of the arguments, the environment and the file.

    The environment is SPARKLAKE_HOME, SPARKLAKE_CONFIG, SPARKLAKE_DSN, SPARKLAKE_COMMITTER,
    SPARKLAKE_CACHE, SPARKLAKE_CACHE_BYTES, SPARKLAKE_WORKERS, SPARKLAKE_BUCKET_WRITES,
    SPARKLAKE_BUCKET_CONNECT_SECONDS, SPARKLAKE_BUCKET_READ_SECONDS, SPARKLAKE_ONCE_DAYS and
    SPARKLAKE_ONCE_WAIT_SECONDS. SPARKLAKE_HOOKS_ALLOW, SPARKLAKE_HOOKS_SKIP,
    SPARKLAKE_HOOKS_PRIVATE and SPARKLAKE_HOOKS_ENV have comma-separated values.
    """
    folder = _home(home)
    from_file = _find_file_settings(folder)
    return Settings(
        home=folder,
        dsn=dsn or os.environ.get("SPARKLAKE_DSN") or from_file.dsn or None,
        committer=os.environ.get("SPARKLAKE_COMMITTER") or from_file.committer or _user(),
        engine=engine or from_file.engine or Engine.AUTO,
        cache=_cache_here(CacheSettings(from_file.cache, from_file.cache_bytes)),
        workers=_integer("SPARKLAKE_WORKERS", 1, "of at least 1") or from_file.workers,
        hooks=_hooks(from_file),
        bucket_writes=_bucket_writes() or from_file.bucket_writes or BucketWrites.AUTO,
        bucket_timeouts=bucket_timeouts_here(
            BucketTimeouts(
                from_file.bucket_connect_seconds or _TIMEOUTS.connect_seconds,
                from_file.bucket_read_seconds or _TIMEOUTS.read_seconds,
            )
        ),
        once=_once(from_file),
    )


def cache_place(settings: CacheSettings) -> tuple[Path, int]:
    """Return the folder and maximum bytes of this machine's cache.

    Its environment overrides the driver's settings, but a disabled cache stays disabled.
    """
    local = _cache_here(settings)
    folder = Path(local.folder) if local.folder else _default_cache()
    max_bytes = DEFAULT_CACHE_BYTES if local.max_bytes is None else local.max_bytes
    return folder.expanduser().absolute(), 0 if settings.max_bytes == 0 else max_bytes


def bucket_timeouts_here(timeouts: BucketTimeouts) -> BucketTimeouts:
    """Return timeouts, overridden by this machine's environment."""
    return BucketTimeouts(
        _number(BUCKET_CONNECT_SECONDS, "seconds") or timeouts.connect_seconds,
        _number(BUCKET_READ_SECONDS, "seconds") or timeouts.read_seconds,
    )


def _number(name: str, unit: str) -> float | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise InvalidInputError(f"{name} is {text!r}: choose a number of {unit} above 0")
    return value


def _integer(name: str, least: int, choice: str) -> int | None:
    text = os.environ.get(name)
    if text and not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise InvalidInputError(f"{name} is {text!r}: choose a number {choice}")
    return int(text) if text else None


def _once(from_file: FileSettings) -> OnceSettings:
    days = _number("SPARKLAKE_ONCE_DAYS", "days") or from_file.once_days or DEFAULT_ONCE.days
    wait = _number("SPARKLAKE_ONCE_WAIT_SECONDS", "seconds") or from_file.once_wait_seconds
    return OnceSettings(
        min(days, _MAX_ONCE_DAYS), min(wait or DEFAULT_ONCE.wait_seconds, _MAX_ONCE_SECONDS)
    )


def _cache_here(settings: CacheSettings) -> CacheSettings:
    """Return cache settings, overridden by this machine's environment."""
    size = _integer("SPARKLAKE_CACHE_BYTES", 0, "of bytes, or 0 for no cache")
    return CacheSettings(
        os.environ.get("SPARKLAKE_CACHE") or settings.folder or None,
        settings.max_bytes if size is None else size,
    )


def _default_cache() -> Path:
    """Return the user's cache folder, or one below SPARKLAKE_SCRATCH if it is set."""
    own = f"sparklake-cache-{os.getuid()}"
    if os.environ.get("SPARKLAKE_SCRATCH"):
        return disk_root() / own
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparklake"
    except RuntimeError:
        return disk_root() / own  # This user has no home folder.


def disk_root() -> Path:
    """Return the folder for large temporary files: SPARKLAKE_SCRATCH or the system's."""
    return Path(os.environ.get("SPARKLAKE_SCRATCH") or tempfile.gettempdir())


def _home(home: str | Path | None) -> Path:
    try:
        folder = Path(home or os.environ.get("SPARKLAKE_HOME") or Path.home() / ".sparklake")
        return folder.expanduser().absolute()
    except RuntimeError:
        raise InvalidInputError(
            "this user has no home folder: set SPARKLAKE_HOME to the folder for the "
            "lake's own files"
        ) from None


def _find_file_settings(home: Path) -> FileSettings:
    # Lazy import: msgspec takes 20 ms, which --help does not need.
    from sparklake.settings_file import FileSettings, read_settings_file

    config = os.environ.get("SPARKLAKE_CONFIG")
    if config:
        return read_settings_file(Path(config).expanduser())
    path = home / SETTINGS_FILE
    return read_settings_file(path) if path.is_file() else FileSettings()


def _bucket_writes() -> BucketWrites | None:
    text = os.environ.get("SPARKLAKE_BUCKET_WRITES")
    if not text:
        return None
    return parse_choice(BucketWrites, text, f"SPARKLAKE_BUCKET_WRITES is {text!r}: choose one of")


def _hooks(from_file: FileSettings) -> HookSettings:
    parts: dict[str, tuple[str, ...]] = {}
    for name in HookSettings.__dataclass_fields__:
        text = os.environ.get(f"SPARKLAKE_HOOKS_{name.upper()}")
        in_file: tuple[str, ...] | None = getattr(from_file, f"hooks_{name}")
        if text is not None:
            parts[name] = tuple(each.strip() for each in text.split(",") if each.strip())
        elif in_file is not None:
            parts[name] = in_file
    settings = HookSettings(**parts)
    types = {each.value for each in HookType}
    # Only events have hyphens.
    skipped_types = (each for each in settings.skip if not _EVENT.fullmatch(each))
    for each in (*settings.allow, *skipped_types):
        if each.partition(":")[0] not in types:
            raise InvalidInputError(
                f"{each!r} is not a hook type: choose one of {', '.join(sorted(types))}"
            )
    return settings


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Users in containers may have no name.
        return _ANONYMOUS
