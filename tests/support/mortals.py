"""Verbs in processes killed by SIGKILL before one of their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from campaigns.faults.forks import Forks, forks

MAX_STEPS = 500


class Mortals:
    """Sends verbs to their deaths."""

    def __init__(self, children: Forks, dsn: str) -> None:
        self._children = children
        self._dsn = dsn

    def send(self, last: int, verb: str, **order: Any) -> bool:
        """Run a verb, kill it before a step, and return whether it reached that step."""
        answer = self._children.send(self._dsn, last, verb=verb, **order)
        assert answer.error is None
        assert answer.died == (answer.steps == last)
        return answer.died


@contextmanager
def mortal_verbs(dsn: str) -> Iterator[Mortals]:
    """Start the parent process of the verbs."""
    with forks("tests.support.dying_verb") as children:
        yield Mortals(children, dsn)


def deaths(run: Callable[[int], bool]) -> int:
    """Kill a verb before step 1, then 2, and so on until it survives; return the kills."""
    for last in range(1, MAX_STEPS):
        if not run(last):
            return last - 1
    raise AssertionError("it never ends")
