"""What every command takes: `--output`, `--engine`, `--home` and `--dsn`, before or after it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from sparklake.config import Engine

_PANEL = "Global options"


class Format(str, Enum):
    """Is how results are printed: JSONL has a line for each row of a listing, and no list."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Options:
    """Is what was asked for; None leaves the choice to the environment and the settings file.

    `owns_process` is set where this Python process runs nothing but the one command.
    """

    output: Format = Format.TEXT
    engine: Engine | None = None
    home: Path | None = None
    dsn: str | None = None
    owns_process: bool = False


OutputOption = Annotated[
    Format | None,
    typer.Option(help="How results are printed.", show_default=False, rich_help_panel=_PANEL),
]
EngineOption = Annotated[
    Engine | None,
    typer.Option(
        help="Where plans run: local is this machine, auto goes by size.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
HomeOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where the embedded Postgres is; SPARKLAKE_HOME, or ~/.sparklake.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
DsnOption = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        help="The Postgres to use in place of the embedded one; SPARKLAKE_DSN.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


def global_options(
    context: typer.Context,
    output: OutputOption = None,
    engine: EngineOption = None,
    home: HomeOption = None,
    dsn: DsnOption = None,
) -> None:
    """Notes the options given at one level of a command line; the innermost ones win."""
    absorbed(context, {"output": output, "engine": engine, "home": home, "dsn": dsn})


def absorbed(context: typer.Context, given: dict[str, Any]) -> Options:
    """Returns the options given so far and at this level."""
    known = context.ensure_object(dict)
    known.update({name: value for name, value in given.items() if value is not None})
    return Options(**known)
