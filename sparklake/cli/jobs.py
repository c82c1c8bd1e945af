"""`sparklake jobs`: path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sparklake
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import global_options
from sparklake.cli.text import one_line
from sparklake.errors import InvalidInputError

FOLDER = Path(sparklake.__file__).with_name("jobs")
_NO_JOBS = {"__init__", "runner"}

app = typer.Typer(
    name="jobs", help="Files for spark-submit, one per command: path.", no_args_is_help=True
)
app.callback()(global_options)


@app.command()
@command
def path(
    invocation: Invocation,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A job, such as merge.", show_default=False),
    ] = None,
) -> None:
    """Print the path of a job, or of the folder of all jobs."""
    found = FOLDER if name is None else _job(name.removesuffix(".py"))
    invocation.out.one({"path": str(found)}, one_line(str(found)))


def _job(name: str) -> Path:
    known = sorted({each.stem for each in FOLDER.glob("*.py")} - _NO_JOBS)
    if name not in known:
        raise InvalidInputError(f"there is no job {name!r}: choose one of {', '.join(known)}")
    return FOLDER / f"{name}.py"
