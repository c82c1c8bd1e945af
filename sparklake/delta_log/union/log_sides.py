"""The inputs of a union, and the signature of its commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from sparklake.delta_log.actions import Action, FileKey
from sparklake.delta_log.delta_commits import REPEATED, DeltaCommit

FindAdds = Callable[[frozenset[FileKey]], Mapping[FileKey, Mapping[str, Any]]]
"""A function that returns a log's `add` fields of live files."""

HadFile = Callable[[Set[str]], bool]
"""A function that returns whether a table had a live file at none of some paths."""


def _not_known(_: Set[str]) -> bool:
    return False


def _no_adds(_: frozenset[FileKey]) -> Mapping[FileKey, Mapping[str, Any]]:
    return {}


@dataclass(frozen=True, slots=True)
class LogSide:
    """A table on one side: its commits since the sides diverged, and its final state.

    A side without a log has neither metadata nor protocol. `had_file_beside` is about the table
    before the commits, and returns False if that is unknown. `find_adds` is about the final state.
    """

    commits: tuple[DeltaCommit, ...] = ()
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    had_file_beside: HadFile = _not_known
    find_adds: FindAdds = _no_adds


@dataclass(frozen=True, slots=True)
class UnionSignature:
    """The signature of a union's commits: a time in unix milliseconds and the engine."""

    timestamp: int
    engine: str


def commit_info(
    made: UnionSignature, parameters: Mapping[str, str], more: Mapping[str, Any]
) -> Action:
    return {
        "commitInfo": {
            "timestamp": made.timestamp,
            "operation": REPEATED,
            "operationParameters": parameters,
            "engineInfo": made.engine,
            **more,
        }
    }
