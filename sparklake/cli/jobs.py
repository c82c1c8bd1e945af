"""`sparklake jobs`: path."""

from __future__ import annotations

from pathlib import Path

import sparklake
from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.text import one_line

FILE = Path(sparklake.__file__).parent / "jobs" / "run.py"
"""The file for spark-submit. Its arguments are those of the command `sparklake`."""

app = Group("jobs", "The file for spark-submit: path.")


@app.add()
def path(invocation: Invocation) -> None:
    """Print the path of the file that spark-submit runs."""
    invocation.out.one({"path": str(FILE)}, one_line(str(FILE)))
