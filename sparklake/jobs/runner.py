"""The runner of jobs: a command of the CLI, with JSON output, in the submitted session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sparklake.cli.main import run
from sparklake.cli.options import Format


class Main(Protocol):
    """The entry point of a job."""

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run the job with these arguments or the process's own; return its exit code."""


def job(*words: str) -> Main:
    """Return the entry point of the job that runs the command with this name."""

    def main(argv: Sequence[str] | None = None) -> int:
        return run(words, argv, {"output": Format.JSON, "job": " ".join(words)})

    return main
