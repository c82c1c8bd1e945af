"""The entry point of the `sparklake` command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache

from typer.main import get_command

from sparklake.cli.app import app
from sparklake.errors import InterruptError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # Names of objects may have letters that a terminal lacks.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        _command()(
            args=None if argv is None else list(argv),
            prog_name="sparklake",
            obj={"owns_process": argv is None},
        )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return InterruptError.exit_code
    return 0


@cache
def _command() -> Callable[..., None]:
    """Build the command once, however often a process runs it."""
    return get_command(app)


if __name__ == "__main__":
    sys.exit(main())
