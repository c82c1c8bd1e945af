"""Settings: what a lake is opened with, from arguments, the environment and defaults."""

from __future__ import annotations

import getpass
import os
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


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


def load_settings(
    home: str | Path | None = None,
    dsn: str | None = None,
    engine: Engine = Engine.AUTO,
) -> Settings:
    """Returns settings; an argument wins over SPARKLAKE_HOME, SPARKLAKE_DSN, SPARKLAKE_COMMITTER."""
    chosen = home or os.environ.get("SPARKLAKE_HOME") or Path.home() / ".sparklake"
    return Settings(
        home=Path(chosen).expanduser().absolute(),
        dsn=dsn or os.environ.get("SPARKLAKE_DSN") or None,
        committer=os.environ.get("SPARKLAKE_COMMITTER") or getpass.getuser(),
        engine=engine,
    )


def scratch_root() -> Path:
    """Returns the folder for temporary files: SPARKLAKE_SCRATCH, or the system's."""
    return Path(os.environ.get("SPARKLAKE_SCRATCH") or tempfile.gettempdir())
