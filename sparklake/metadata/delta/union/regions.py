"""Overwritten regions: a table, partitions, or a predicate's rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparklake.metadata.delta.actions import Fields
from sparklake.metadata.delta.delta_commits import REPEATED, DeltaCommit
from sparklake.metadata.delta.union.predicates import Predicate, parse_predicate

OVERWRITE = "overwrite"
"""The mode, in a commitInfo, of replacing all rows of a region."""

_DYNAMIC = "isDynamicPartitionOverwrite"
_CARRIED = ("mode", "predicate", _DYNAMIC, "outputMode")
"""The parameters that determine a commit's region."""

_WHOLE = ("REPLACE TABLE", "RESTORE", "CLONE")
"""Parts of the names of operations on whole tables."""

_FILES = frozenset(
    {
        *("WRITE", "INSERT", "STREAMING UPDATE", "COPY INTO", "DELETE", "TRUNCATE", "UPDATE"),
        *("MERGE", "OPTIMIZE", "REORG", "CONVERT", "CREATE TABLE", "CREATE TABLE AS SELECT"),
        REPEATED,
    }
)
"""Operations that replace rows of their removed files only."""


@dataclass(frozen=True, slots=True)
class Region:
    """The rows a commit may replace: all, partitions or a predicate's.

    With `ends_files`, added files copy no rows of removed ones.
    """

    name: str
    partitions: frozenset[str] | None = None
    predicate: Predicate | None = None
    ends_files: bool = True

    @property
    def is_all(self) -> bool:
        return self.partitions is None and self.predicate is None

    def may_have(self, add: Fields) -> bool:
        if self.predicate is not None:
            return self.predicate.may_hold(add)
        return self.partitions is None or partition_key(add) in self.partitions


def region_of(commit: DeltaCommit, metadata: Mapping[str, Any] | None) -> Region | None:
    """Return a commit's overwritten region, or None for its removed files only.

    An unknown operation, an unparsed predicate, and a mode of all or single partitions stand for
    the whole table, which is safe.
    """
    operation, parameters = _operation(commit)
    if commit.version == 0:
        # A table's first commit replaces nothing.
        return None
    if (
        any(each in operation for each in _WHOLE)
        or _parameter(parameters, "outputMode") == "complete"
    ):
        return Region("the table")
    if _parameter(parameters, "mode") == OVERWRITE:
        text = parameters.get("predicate")
        if text is not None:
            predicate = parse_predicate(str(text), metadata or {})
            return Region(f"the rows of {text}", predicate=predicate, ends_files=False)
        is_dynamic = _parameter(parameters, _DYNAMIC) == "true"
        if is_dynamic and (metadata or {}).get("partitionColumns"):
            return partitions_of(commit)
        return Region("the table")
    if operation in _FILES or commit.info.get("isBlindAppend") is True or not added_rows(commit):
        return None
    done = repr(operation) if operation else "without a recorded operation"
    return Region(f"the table (commit {commit.version} may have done so, {done})", ends_files=False)


def partitions_of(commit: DeltaCommit) -> Region:
    keys = frozenset(map(partition_key, added_rows(commit)))
    name = f"the partition {min(keys)}" if len(keys) == 1 else f"{len(keys):,} partitions"
    return Region(name, keys)


def added_rows(commit: DeltaCommit) -> list[Fields]:
    """Return the `add` fields of files with new or changed rows."""
    return [each for each in commit.fields("add") if each.get("dataChange", True)]


def removes_rows(commit: DeltaCommit) -> bool:
    return any(each.get("dataChange", True) for each in commit.fields("remove"))


def partition_key(add: Fields) -> str:
    return json.dumps(add.get("partitionValues") or {}, sort_keys=True)


def may_be_of_partitions(commit: DeltaCommit) -> bool:
    """Return whether a commit overwrites either the table or partitions."""
    operation, parameters = _operation(commit)
    return (
        operation == "WRITE"
        and _parameter(parameters, "mode") == OVERWRITE
        and not {"predicate", _DYNAMIC, *_REPEATED_KEYS} & parameters.keys()
    )


def repeated_parameters(commit: DeltaCommit) -> dict[str, str]:
    """Return the original's operation and region as parameters of a repeated commit."""
    operation, parameters = _operation(commit)
    of_region = _CARRIED if commit.version else ()
    carried = {name: str(parameters[name]) for name in of_region if name in parameters}
    return {"operation": operation or "UNKNOWN", "version": str(commit.version), **carried}


_REPEATED_KEYS = ("operation", "version")


def _operation(commit: DeltaCommit) -> tuple[str, Mapping[str, Any]]:
    recorded = commit.info.get("operationParameters")
    parameters = recorded if isinstance(recorded, dict) else {}
    operation = str(commit.info.get("operation") or "").upper()
    if operation == REPEATED and "operation" in parameters:
        operation = str(parameters["operation"]).upper()
    return operation, parameters


def _parameter(parameters: Mapping[str, Any], name: str) -> str:
    return str(parameters.get(name)).strip('"').lower()
