"""Overwritten regions: a table, partitions, or a predicate's rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparklake.delta_log.actions import Said
from sparklake.delta_log.delta_commits import REPEATED, DeltaCommit
from sparklake.delta_log.union.predicates import Predicate, parse_predicate

OVERWRITE = "overwrite"
"""The mode, in a commitInfo, of a commit that replaces all rows of its region."""

_DYNAMIC = "isDynamicPartitionOverwrite"
_CARRIED = ("mode", "predicate", _DYNAMIC, "outputMode")
"""The parameters that determine the region of a commit."""

_WHOLE = ("REPLACE TABLE", "RESTORE", "CLONE")
"""Parts of the names of operations that define the whole contents of a table."""

_FILES = frozenset(
    {
        *("WRITE", "INSERT", "STREAMING UPDATE", "COPY INTO", "DELETE", "TRUNCATE", "UPDATE"),
        *("MERGE", "OPTIMIZE", "REORG", "CONVERT", "CREATE TABLE", "CREATE TABLE AS SELECT"),
        REPEATED,
    }
)
"""Operations that replace only rows of the files that they remove."""


@dataclass(frozen=True, slots=True)
class Region:
    """The rows possibly replaced by a commit: all, partitions or a predicate's.

    With `ends_files`, no row of a removed file is copied into an added file.
    """

    name: str
    partitions: frozenset[str] | None = None
    predicate: Predicate | None = None
    ends_files: bool = True

    def may_have(self, add: Said) -> bool:
        """Return whether a row of a file may be in the region."""
        if self.predicate is not None:
            return self.predicate.may_hold(add)
        return self.partitions is None or partition_key(add) in self.partitions


def region_of(commit: DeltaCommit, metadata: Mapping[str, Any] | None) -> Region | None:
    """Return a commit's overwritten region; None for only its removed files.

    The safe answer is the whole table: for an unknown operation, an unparsed predicate, and a mode
    that may mean all or single partitions.
    """
    operation, parameters = _operation(commit)
    if any(each in operation for each in _WHOLE) or _said(parameters, "outputMode") == "complete":
        return Region("the table")
    if _said(parameters, "mode") == OVERWRITE:
        return _of_overwrite(commit, parameters, metadata or {})
    if operation in _FILES or commit.info.get("isBlindAppend") is True or not added_rows(commit):
        return None
    done = repr(operation) if operation else "without a recorded operation"
    return Region(f"the table (commit {commit.version} may have done so, {done})", ends_files=False)


def _of_overwrite(
    commit: DeltaCommit, parameters: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Region:
    text = parameters.get("predicate")
    if text is not None:
        predicate = parse_predicate(str(text), metadata)
        return Region(f"the rows of {text}", predicate=predicate, ends_files=False)
    dynamic = _said(parameters, _DYNAMIC)
    if dynamic == "true" and metadata.get("partitionColumns"):
        return partitions_of(commit)
    return Region("the table")


def partitions_of(commit: DeltaCommit) -> Region:
    """Return the partitions of a commit's added files, as its overwritten region."""
    found = frozenset(map(partition_key, added_rows(commit)))
    name = f"the partition {min(found)}" if len(found) == 1 else f"{len(found):,} partitions"
    return Region(name, found)


def added_rows(commit: DeltaCommit) -> list[Said]:
    """Return the `add` fields of a commit's files with new or changed rows."""
    return [each for each in commit.said("add") if each.get("dataChange", True)]


def partition_key(add: Said) -> str:
    """Return the partition of a file as a comparable string."""
    return json.dumps(add.get("partitionValues") or {}, sort_keys=True)


def may_be_of_partitions(commit: DeltaCommit) -> bool:
    """Return whether a commit overwrites an unknown region: table or partitions."""
    operation, parameters = _operation(commit)
    return (
        operation == "WRITE"
        and _said(parameters, "mode") == OVERWRITE
        and not {"predicate", _DYNAMIC, *_REPEATED_KEYS} & parameters.keys()
    )


def repeated_parameters(commit: DeltaCommit) -> dict[str, str]:
    """Return the parameters of a repeated commit: the original's operation and region."""
    operation, parameters = _operation(commit)
    carried = {name: str(parameters[name]) for name in _CARRIED if name in parameters}
    return {"operation": operation or "UNKNOWN", "version": str(commit.version), **carried}


_REPEATED_KEYS = ("operation", "version")


def _operation(commit: DeltaCommit) -> tuple[str, Mapping[str, Any]]:
    """Return the operation and parameters of a commit or its original."""
    said = commit.info.get("operationParameters")
    parameters = said if isinstance(said, dict) else {}
    operation = str(commit.info.get("operation") or "").upper()
    if operation == REPEATED and "operation" in parameters:
        operation = str(parameters["operation"]).upper()
    return operation, parameters


def _said(parameters: Mapping[str, Any], name: str) -> str:
    return str(parameters.get(name)).strip('"').lower()
