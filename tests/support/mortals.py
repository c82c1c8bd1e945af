"""Verbs in processes that die by SIGKILL before one of their steps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MAX_STEPS = 500


class Mortals:
    """Sends verbs to their deaths."""

    def __init__(self, process: subprocess.Popen[str], dsn: str) -> None:
        self._process = process
        self._dsn = dsn

    def send(self, last: int, verb: str, **order: Any) -> bool:
        """Run a verb that dies instead of taking a step; return whether it came to that."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"dsn": self._dsn, "last": last, "verb": verb, **order}) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        assert not answer["failed"]
        assert answer["died"] == (answer["steps"] == last)
        return bool(answer["died"])


@contextmanager
def mortal_verbs(dsn: str) -> Iterator[Mortals]:
    """Start the process whose children run the verbs."""
    command = [sys.executable, "-m", "tests.support.dying_verb"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Mortals(process, dsn)
        assert process.stdin is not None
        process.stdin.close()


def deaths(run: Callable[[int], bool]) -> int:
    """Run a verb that dies before step 1, then 2, and so on until it survives; counts deaths."""
    for last in range(1, MAX_STEPS):
        if not run(last):
            return last - 1
    raise AssertionError("it never ends")
