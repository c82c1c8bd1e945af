"""Git for data lakes on Spark: repositories, branches, commits, diff and merge.

lake = sparklake.connect()
repo = lake.create_repository("lake", "s3://bucket/prefix")
branch = repo.create_branch("dev", source="main")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparklake.branch import Branch as Branch
    from sparklake.config import Engine as Engine
    from sparklake.errors import InvalidImportError as InvalidImportError
    from sparklake.errors import MergeConflictError as MergeConflictError
    from sparklake.errors import SparklakeError as SparklakeError
    from sparklake.frames.tables.spark_sources import missing_files as missing_files
    from sparklake.graveler.algebra.classify import Strategy as Strategy
    from sparklake.graveler.commits import Commit as Commit
    from sparklake.lake import Lake as Lake
    from sparklake.lake import connect as connect
    from sparklake.repository import Repository as Repository
    from sparklake.rows.diffs import DiffRow as DiffRow
    from sparklake.rows.diffs import ThreeWayRow as ThreeWayRow
    from sparklake.rows.objects import ObjectInfo as ObjectInfo
    from sparklake.verbs.base.once import Once as Once
    from sparklake.verbs.base.once import VerbResult as VerbResult
    from sparklake.verbs.base.runner import run_verb as run_verb
    from sparklake.verbs.history.show import CommitSummary as CommitSummary
    from sparklake.verbs.imports.import_objects import ImportReport as ImportReport
    from sparklake.verbs.imports.inventory import Inventory as Inventory
    from sparklake.verbs.merges.preview import MergePreview as MergePreview
    from sparklake.verbs.objects.restore import RestoreResult as RestoreResult

# Names are imported on demand: the command starts in a fraction of Arrow's load time.
_MODULES = {
    "Branch": "sparklake.branch",
    "Commit": "sparklake.graveler.commits",
    "CommitSummary": "sparklake.verbs.history.show",
    "DiffRow": "sparklake.rows.diffs",
    "Engine": "sparklake.config",
    "ImportReport": "sparklake.verbs.imports.import_objects",
    "InvalidImportError": "sparklake.errors",
    "Lake": "sparklake.lake",
    "MergeConflictError": "sparklake.errors",
    "MergePreview": "sparklake.verbs.merges.preview",
    "ObjectInfo": "sparklake.rows.objects",
    "Once": "sparklake.verbs.base.once",
    "Repository": "sparklake.repository",
    "RestoreResult": "sparklake.verbs.objects.restore",
    "Inventory": "sparklake.verbs.imports.inventory",
    "SparklakeError": "sparklake.errors",
    "Strategy": "sparklake.graveler.algebra.classify",
    "ThreeWayRow": "sparklake.rows.diffs",
    "VerbResult": "sparklake.verbs.base.once",
    "connect": "sparklake.lake",
    "missing_files": "sparklake.frames.tables.spark_sources",
    "run_verb": "sparklake.verbs.base.runner",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Load the notebook magics `%lake` and `%%lake`, for `%load_ext sparklake`."""
    import_module("sparklake.notebook").register_magics(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
