"""Inputs of unions, and the signatures of their commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from sparklake.delta_log.actions import Action, FileKey
from sparklake.delta_log.delta_commits import REPEATED, DeltaCommit

FindAdds = Callable[[frozenset[FileKey]], Mapping[FileKey, Mapping[str, Any]]]
"""A lookup of the `add` fields of live files in a log."""

HadFile = Callable[[Set[str]], bool]
"""A function that returns whether a table had a live file beside the given paths."""


@dataclass(frozen=True, slots=True)
class LogSide:
    """A table on one side: its commits since the sides diverged, and its final state.

    A side without a log has neither metadata nor protocol. `had_file_beside` refers to the table
    before the commits, and returns False if unknown. `find_adds` refers to the final state.
    """

    commits: tuple[DeltaCommit, ...] = ()
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    had_file_beside: HadFile = lambda _: False
    find_adds: FindAdds = lambda _: {}


@dataclass(frozen=True, slots=True)
class UnionSignature:
    """The author of a union's commits. `timestamp` is in unix milliseconds."""

    timestamp: int
    engine: str


def commit_info(
    signature: UnionSignature, parameters: Mapping[str, str], more: Mapping[str, Any]
) -> Action:
    return {
        "commitInfo": {
            "timestamp": signature.timestamp,
            "operation": REPEATED,
            "operationParameters": parameters,
            "engineInfo": signature.engine,
            **more,
        }
    }
