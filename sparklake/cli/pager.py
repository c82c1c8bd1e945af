"""A pager for text on a terminal, chosen as in git."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

_STDOUT = 1


def pager_command() -> str | None:
    """Return the pager: $PAGER, or less; None for `cat`, an empty text or a missing program."""
    command = os.environ.get("PAGER", "less").strip()
    # Variables may stand before the program.
    program = next((each for each in command.split() if "=" not in each), "")
    return None if command == "cat" or shutil.which(program) is None else command


def abandon_stdout() -> None:
    """Discard the remaining output, so that Python reports no error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class Pager:
    """A running pager in place of stdout. Ctrl-C belongs to it until it is closed."""

    def __init__(self, command: str) -> None:
        # As git has it: less ends at once if everything fits on the screen.
        environment = {"LESS": "FRX", "LV": "-c", **os.environ}
        ours, theirs = os.pipe()
        shell = ["/bin/sh", "-c", command]
        self._process = subprocess.Popen(shell, stdin=ours, env=environment)  # noqa: S603  (as git)
        self._stdout = os.dup(_STDOUT)
        os.dup2(theirs, _STDOUT)
        for each in (ours, theirs):
            os.close(each)
        self._on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def close(self) -> None:
        """Write the remaining text, and wait until the reader quits the pager."""
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # What the reader did not want may not appear afterwards.
            abandon_stdout()
            sys.stdout.flush()
        os.dup2(self._stdout, _STDOUT)
        os.close(self._stdout)
        self._process.wait()
        signal.signal(signal.SIGINT, self._on_interrupt)
