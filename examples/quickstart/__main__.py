"""The entry point of the guided demo: `python -m examples.quickstart [DIR] [--store URI]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from examples.quickstart.command import quickstart
from sparklake.cli.light_commands import lighten
from sparklake.cli.main import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; return its exit code."""
    app = typer.Typer(add_completion=False)
    app.command()(quickstart)
    grammar = get_command(app)
    lighten(grammar)
    return run(argv, {}, program="python -m examples.quickstart", grammar=grammar)


if __name__ == "__main__":
    sys.exit(main())
