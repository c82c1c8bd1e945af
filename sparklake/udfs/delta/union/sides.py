"""What a union is made of, and how its commits are signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparklake.udfs.delta.actions import Action, FileKey
from sparklake.udfs.delta.commits import DeltaCommit

FindAdds = Callable[[frozenset[FileKey]], Mapping[FileKey, Mapping[str, Any]]]
"""Returns what a log says of files that are live in it."""


@dataclass(frozen=True, slots=True)
class LogSide:
    """Is a table on one side: its commits since the three sides part, and what holds at the end.

    A side without a log has neither metadata nor protocol.
    """

    commits: tuple[DeltaCommit, ...] = ()
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """Is how the commits of a union are signed: a time in unix milliseconds, and by what."""

    timestamp: int
    engine: str


def commit_info(made: Made, parameters: Mapping[str, str], more: Mapping[str, Any]) -> Action:
    """Returns the commitInfo of a commit that a merge makes."""
    return {
        "commitInfo": {
            "timestamp": made.timestamp,
            "operation": "MERGE BRANCH",
            "operationParameters": parameters,
            "engineInfo": made.engine,
            **more,
        }
    }
