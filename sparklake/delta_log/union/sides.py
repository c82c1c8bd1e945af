"""What a union is made of, and how its commits are signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from sparklake.delta_log.actions import Action, FileKey
from sparklake.delta_log.commits import REPEATED, DeltaCommit

FindAdds = Callable[[frozenset[FileKey]], Mapping[FileKey, Mapping[str, Any]]]
"""What a log says of files that are live in it."""

HadFile = Callable[[Set[str]], bool]
"""Tells whether a table had a live file at none of some paths."""


def _not_known(_: Set[str]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class LogSide:
    """A table on one side: its commits since the three sides part, and what holds at the end.

    A side without a log has neither metadata nor protocol. `had_file_beside` is of the table as it
    was before the commits; it answers False where that is not known.
    """

    commits: tuple[DeltaCommit, ...] = ()
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    had_file_beside: HadFile = _not_known


@dataclass(frozen=True, slots=True)
class Made:
    """How the commits of a union are signed: a time in unix milliseconds, and by what."""

    timestamp: int
    engine: str


def commit_info(made: Made, parameters: Mapping[str, str], more: Mapping[str, Any]) -> Action:
    """Return the commitInfo of a commit that a merge makes."""
    return {
        "commitInfo": {
            "timestamp": made.timestamp,
            "operation": REPEATED,
            "operationParameters": parameters,
            "engineInfo": made.engine,
            **more,
        }
    }
