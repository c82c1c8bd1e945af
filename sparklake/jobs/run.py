"""Run a command as a Spark job: `spark-submit $(sparklake jobs path) merge lakefs://...`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sparklake.cli.main import run
from sparklake.cli.options import Format


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, by default that of the process; return its exit code."""
    return run(argv, {"output": Format.JSON, "is_job": True})


if __name__ == "__main__":
    sys.exit(main())
