"""`sparklake jobs`: path."""

from __future__ import annotations

from pathlib import Path

import typer

import sparklake
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import global_options
from sparklake.cli.text import one_line

FILE = Path(sparklake.__file__).parent / "jobs" / "run.py"
"""The file for spark-submit. Its arguments are those of the command `sparklake`."""

app = typer.Typer(name="jobs", help="The file for spark-submit: path.", no_args_is_help=True)
app.callback()(global_options)


@app.command()
@command
def path(invocation: Invocation) -> None:
    """Print the path of the file that spark-submit runs."""
    invocation.out.one({"path": str(FILE)}, one_line(str(FILE)))
