"""Git for data lakes on Spark: repositories, branches, commits, diff and merge.

lake = sparklake.connect()
repo = lake.create_repository("lake", "s3://bucket/prefix")
branch = repo.create_branch("dev", source="main")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparklake.branch import Branch
    from sparklake.config import Engine
    from sparklake.errors import ImportErrorsError, MergeConflictError, SparklakeError
    from sparklake.frames.tables.spark_sources import missing_files
    from sparklake.graveler.algebra.classify import Strategy
    from sparklake.graveler.commits import Commit
    from sparklake.lake import Lake, connect
    from sparklake.repository import Repository
    from sparklake.rows.diffs import DiffRow, ThreeWayRow
    from sparklake.rows.objects import ObjectInfo
    from sparklake.verbs.base.once import Once
    from sparklake.verbs.base.runner import run_verb
    from sparklake.verbs.base.verb_result import VerbResult
    from sparklake.verbs.history.show import CommitSummary
    from sparklake.verbs.imports.import_objects import ImportReport
    from sparklake.verbs.imports.inventory import S3Inventory
    from sparklake.verbs.merges.preview import MergePreview
    from sparklake.verbs.objects.restore import RestoreResult

__all__ = [
    "Branch",
    "Commit",
    "CommitSummary",
    "DiffRow",
    "Engine",
    "ImportErrorsError",
    "ImportReport",
    "Lake",
    "MergeConflictError",
    "MergePreview",
    "ObjectInfo",
    "Once",
    "Repository",
    "RestoreResult",
    "S3Inventory",
    "SparklakeError",
    "Strategy",
    "ThreeWayRow",
    "VerbResult",
    "connect",
    "missing_files",
    "run_verb",
]

# Names are imported on demand: the command starts in a fraction of Arrow's load time.
_MODULES = {
    "Branch": "sparklake.branch",
    "Commit": "sparklake.graveler.commits",
    "CommitSummary": "sparklake.verbs.history.show",
    "DiffRow": "sparklake.rows.diffs",
    "Engine": "sparklake.config",
    "ImportErrorsError": "sparklake.errors",
    "ImportReport": "sparklake.verbs.imports.import_objects",
    "Lake": "sparklake.lake",
    "MergeConflictError": "sparklake.errors",
    "MergePreview": "sparklake.verbs.merges.preview",
    "ObjectInfo": "sparklake.rows.objects",
    "Once": "sparklake.verbs.base.once",
    "Repository": "sparklake.repository",
    "RestoreResult": "sparklake.verbs.objects.restore",
    "S3Inventory": "sparklake.verbs.imports.inventory",
    "SparklakeError": "sparklake.errors",
    "Strategy": "sparklake.graveler.algebra.classify",
    "ThreeWayRow": "sparklake.rows.diffs",
    "VerbResult": "sparklake.verbs.base.verb_result",
    "connect": "sparklake.lake",
    "missing_files": "sparklake.frames.tables.spark_sources",
    "run_verb": "sparklake.verbs.base.runner",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
