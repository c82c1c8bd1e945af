"""`sparklake jobs`: path."""

from __future__ import annotations

import json
from collections.abc import Iterable
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
        typer.Argument(
            metavar="[NAME]", help="A job or command, such as merge.", show_default=False
        ),
    ] = None,
) -> None:
    """Print the path of a job, or of the folder of all jobs."""
    found = FOLDER if name is None else job_file(name)
    invocation.out.one({"path": str(found)}, one_line(str(found)))


def job_file(name: str) -> Path:
    """Return the file of a job, such as `create_branch`, or of a command, such as `branch create`.

    Raises InvalidInputError.
    """
    files = {each.stem: each for each in FOLDER.glob("*.py") if each.stem not in _NO_JOBS}
    found = files.get(name.removesuffix(".py")) or _file_of_command(name, files.values())
    if found is None:
        known = ", ".join(sorted(files))
        raise InvalidInputError(f"there is no job {name!r}: choose one of {known}")
    return found


def _file_of_command(name: str, files: Iterable[Path]) -> Path | None:
    call = f"job({', '.join(json.dumps(word) for word in name.split())})"
    return next((each for each in files if call in each.read_text(encoding="utf-8")), None)
