"""JSON documents of commits, objects, differences and errors, for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparklake.errors import (
    HookFailedError,
    InvalidImportError,
    MergeConflictError,
    ReplacementError,
    SparklakeError,
)
from sparklake.graveler.times import SECOND

if TYPE_CHECKING:
    from datetime import timedelta

    from sparklake.engine.explanation import Explanation
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.guards import ProtectionRule
    from sparklake.graveler.ports import BranchState, Operation, RepositoryInfo, TagInfo, Write
    from sparklake.graveler.ports.registers import HookRun, Purge
    from sparklake.graveler.retention import Retention
    from sparklake.hooks.declarations import HookFile
    from sparklake.rows.diffs import DiffRow, FolderDiff, ThreeWayRow
    from sparklake.rows.objects import ObjectInfo
    from sparklake.stores.cache import CacheUsage, DiskCache
    from sparklake.verbs.checks.report import CheckReport
    from sparklake.verbs.diffs.differences import DiffTree
    from sparklake.verbs.dumps.dump import RefsDump
    from sparklake.verbs.exports.register import Registration
    from sparklake.verbs.exports.work import ExportResult
    from sparklake.verbs.gc.collect import Collection
    from sparklake.verbs.history.blame import BlameRow
    from sparklake.verbs.history.show import BranchStatus, CommitSummary
    from sparklake.verbs.imports.import_objects import ImportReport
    from sparklake.verbs.merges.preview import MergePreview
    from sparklake.verbs.objects.list import Folder
    from sparklake.verbs.objects.restore import RestoreResult
    from sparklake.verbs.objects.upload import FolderUpload
    from sparklake.verbs.repairs.repair import RepairReport
    from sparklake.verbs.tables.row_diff import TableDiff

Document = Mapping[str, Any]

SIDES = ("base", "source", "dest")
"""The sides of a merge, in the order in which they are shown."""

_IMPORT_ERRORS = 100
"""The maximum number of import errors in a document. Counts include all."""


def _counts(result: object, suffix: str = "") -> dict[str, int | None]:
    return {kind: getattr(result, kind + suffix) for kind in ("added", "removed", "changed")}


def repository_document(info: RepositoryInfo) -> Document:
    return {
        "name": info.name,
        "storage_namespace": info.storage_namespace,
        "default_branch": info.default_branch,
        "creation_date": info.creation_date,
        "range_records": info.range_records,
        "read_only": info.settings.read_only,
        "metadata": dict(info.settings.metadata),
    }


def rule_document(rule: ProtectionRule) -> Document:
    return {"pattern": rule.pattern, "blocked": sorted(each.value for each in rule.actions)}


def retention_document(retention: Retention | None) -> Document:
    """Return retention rules. None days means forever."""
    if retention is None:
        return {"default_days": None, "branches": [], "tree_days": None}
    return {
        "default_days": retention.default_days,
        "branches": [asdict(each) for each in retention.branches],
        "tree_days": retention.tree_days,
    }


def cache_document(cache: DiskCache, usage: CacheUsage) -> Document:
    """Return the usage of a cache. Sizes are in bytes."""
    return {
        "folder": str(cache.folder),
        "tree_files": usage.tree_files,
        "size": usage.size,
        "max_bytes": cache.max_bytes,
    }


def branch_document(state: BranchState) -> Document:
    """Return a branch. `expires` is in unix seconds, None for never."""
    return {
        "name": state.name,
        "commit_id": state.commit_id,
        "dirty": bool(state.layers),
        "hidden": state.hidden,
        "expires": state.expires,
        "expired": state.is_expired,
        "protected": sorted(each.value for each in state.guard.protected),
    }


def branch_list_document(state: BranchState) -> Document:
    """Return a branch and its head. The head is None if its commit is lost."""
    return {**branch_document(state), "head": state.head and commit_document(state.head)}


def tag_document(tag: TagInfo) -> Document:
    """Return a tag. `creation_date` is in unix seconds, 0 if unknown."""
    return asdict(tag)


def dump_document(dump: RefsDump) -> Document:
    """Return a dump. It lacks changes staged on the `dirty` branches."""
    described = asdict(dump)
    return {**described.pop("manifest"), **described}


def collection_document(collection: Collection) -> Document:
    """Return a garbage collection. `bytes` is the size of the garbage."""
    run = collection.run
    return {
        "id": run.id,
        "state": run.state,
        "objects_listed": run.objects_listed,
        "objects": run.objects,
        "bytes": run.bytes,
        "young": run.young,
        "commits_expired": run.commits_expired,
        "trees": run.trees,
        "tree_files": run.tree_files,
        "tree_file_bytes": run.tree_file_bytes,
        "sample": [object_document(each) for each in collection.sample],
    }


def check_document(report: CheckReport) -> Document:
    return report.document()


def repair_document(report: RepairReport) -> Document:
    return report.document()


def commit_document(commit: Commit) -> Document:
    """Return a commit. The date is in unix seconds."""
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "committer": commit.committer,
        "message": commit.message,
        "creation_date": commit.creation_date,
        "meta_range_id": commit.meta_range_id,
        "metadata": dict(commit.metadata),
        "generation": commit.generation,
    }


def log_document(row: tuple[Commit, bool]) -> Document:
    """Return a commit of a log, with `expired` for an expired one."""
    commit, has_expired = row
    return {**commit_document(commit), **({"expired": True} if has_expired else {})}


def summary_document(summary: CommitSummary) -> Document:
    """Return a commit with its changes, None if one of the two trees is deleted."""
    return {**log_document((summary.commit, summary.has_expired)), "changes": _counts(summary)}


def status_document(name: str, status: BranchStatus) -> Document:
    """Return the status of a branch. `ahead` and `behind` compare with the ref `against`."""
    return {
        "name": name,
        "commit_id": status.head.id,
        "staged": _counts(status),
        "against": status.against,
        "ahead": status.ahead,
        "behind": status.behind,
    }


def object_document(each: ObjectInfo) -> Document:
    """Return an object: size in bytes, mtime in unix seconds."""
    return {
        "type": "object",
        "path": each.path,
        "size": each.size,
        "checksum": each.checksum,
        "mtime": each.mtime // SECOND,
        "address": each.address,
        "metadata": each.metadata,
        "content_type": each.content_type,
    }


def url_document(url: str, lifetime: timedelta) -> Document:
    """Return a presigned URL and its lifetime in seconds."""
    return {"type": "url", "url": url, "expires_in": int(lifetime.total_seconds())}


def upload_document(path: str, upload: FolderUpload) -> Document:
    skipped = [{"path": each.path, "reason": each.reason.value} for each in upload.skipped]
    return {"path": path, "put": upload.count, "skipped": skipped}


def folder_document(each: ObjectInfo | Folder) -> Document:
    # Lazy import: it loads Arrow.
    from sparklake.verbs.objects.list import Folder

    if isinstance(each, Folder):
        return {"type": "prefix", "path": each.path}
    return object_document(each)


def diff_document(row: DiffRow | ThreeWayRow) -> Document:
    """Return a difference. A three-way diff has all sides, None for a missing object."""
    document: dict[str, Any] = {"type": row.type.value, "path": row.path, "size": row.size}
    for name in ("left_checksum", "right_checksum"):
        if hasattr(row, name):
            document[name] = getattr(row, name)
    sides = {side: getattr(row, side) for side in SIDES if hasattr(row, side)}
    return {**document, **{side: value and value.document() for side, value in sides.items()}}


def conflict_document(row: ThreeWayRow) -> Document:
    """Return a conflict, with the latest commits of source and dest, if known."""
    document = {**diff_document(row), **row.commits_document()}
    return document if row.reason is None else {**document, "reason": row.reason}


def blame_document(row: BlameRow) -> Document:
    return {
        "path": row.path,
        "commit_id": row.commit.id,
        "committer": row.commit.committer,
        "message": row.commit.message,
        "creation_date": row.commit.creation_date,
    }


def folder_diff_document(row: FolderDiff) -> Document:
    return asdict(row)


def diff_tree_document(tree: DiffTree) -> Document:
    return {**asdict(tree.total), "children": list(map(diff_tree_document, tree.children.values()))}


def table_diff_document(diff: TableDiff) -> Document:
    return {
        **asdict(diff.counts()),
        "schema_changes": [
            {"column": each.column, "change": each.change, "left": each.left, "right": each.right}
            for each in diff.schema_changes
        ],
        "files": {"left": len(diff.left_files), "right": len(diff.right_files)},
        "bytes": diff.bytes,
    }


def operation_document(each: Operation) -> Document:
    """Return a ref move. A missing ref is None. Dates are in unix seconds."""
    return {name: value for name, value in asdict(each).items() if name != "microseconds"}


def restored_document(result: RestoreResult) -> Document:
    return {"commit_id": result.commit.id, "staged": _counts(result)}


def export_document(result: ExportResult) -> Document:
    return asdict(result)


def registration_document(registration: Registration) -> Document:
    return asdict(registration)


def purge_document(purge: Purge, receipt: str) -> Document:
    return {**asdict(purge), "patterns": list(purge.patterns), "state": purge.state.value} | {
        "receipt": receipt
    }


def preview_document(preview: MergePreview) -> Document:
    """Return a merge preview. Sizes are in bytes."""
    return {
        **{side: getattr(preview, side).id for side in SIDES},
        "changes": _counts(preview),
        "bytes": _counts(preview, "_bytes"),
        "count": preview.conflict_count,
        "unresolved": preview.unresolved,
        "merged_tables": list(preview.merged_tables),
        "table_winners": dict(preview.table_winners),
        "row_merges": {name: asdict(each) for name, each in preview.row_merges.items()},
        "dropped_commits": {name: asdict(each) for name, each in preview.dropped_commits.items()},
        "conflicts": [conflict_document(row) for row in preview.conflicts],
        "dirty": preview.dirty,
        "cost": explanation_document(preview.cost),
    }


def hook_run_document(run: HookRun) -> Document:
    """Return a hook run. The date is in unix seconds."""
    return {
        **asdict(run),
        "status": run.status.value,
        "hooks": [{**asdict(each), "status": each.status.value} for each in run.hooks],
    }


def write_document(write: Write) -> Document:
    """Return an open or abandoned write. The date is in unix seconds."""
    return {**asdict(write), "state": write.state.value}


def action_document(action: HookFile) -> Document:
    """Return a hook file. An empty list of refs means all."""
    return {
        "file": action.path,
        "name": action.name,
        "on": {event.value: list(globs) for event, globs in action.on.items()},
        "hooks": {each.id: each.type.value for each in action.hooks},
    }


def explanation_document(plan: Explanation) -> Document:
    """Return a plan. Bytes are raw, and sides are in order."""
    return asdict(plan)


def import_document(report: ImportReport) -> Document:
    return {
        **commit_document(report.commit),
        "objects": report.objects,
        **_counts(report),
        "retained": report.retained,
        **_errors_document(report),
    }


def _errors_document(report: ImportReport | InvalidImportError) -> Document:
    errors: Any = report.errors
    rows = [] if errors is None else errors.slice(0, _IMPORT_ERRORS).to_pylist()
    return {"counts": dict(report.counts), "errors": rows, "errors_to": report.errors_to}


def error_document(error: SparklakeError) -> Document:
    document = {"error": str(error), "kind": error.kind}
    if isinstance(error, HookFailedError):
        return {**document, "run_id": error.run_id}
    if isinstance(error, InvalidImportError):
        return {**document, **_errors_document(error)}
    if isinstance(error, ReplacementError):
        return {**document, **_counts(error)}
    if not isinstance(error, MergeConflictError):
        return document
    rows: Iterable[Any] = error.conflicts
    overlaps: Iterable[Any] = error.overlaps
    return {
        **document,
        "count": error.count,
        "conflicts": [conflict_document(row) for row in rows],
        "overlaps": [
            {
                "table": each.table,
                "path": each.file.path,
                "count": each.count,
                "positions": list(each.positions),
            }
            for each in overlaps
        ],
        **({"rows": _plain_rows(error.rows)} if error.rows else {}),
        **({"conflict_rows": error.first_conflict_rows} if error.first_conflict_rows else {}),
    }


def _plain_rows(rows: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Convert rows to JSON. Values without a JSON form, such as dates, are texts."""
    plain: list[Document] = json.loads(json.dumps([*rows], default=str))
    return plain


def json_object(document: Document) -> str:
    """Return a document as indented ASCII JSON, safe for terminals and pipes."""
    return json.dumps(document, indent=2)


def json_line(document: Document) -> str:
    """Return a document as JSON on one line, in ASCII."""
    return f"{json.dumps(document)}\n"


def json_list(documents: Iterable[Document]) -> Iterator[str]:
    """Yield a JSON list, one document per line, as the documents arrive.

    An immediate error yields nothing, to avoid a partial list.
    """
    before = "[\n  "
    for document in documents:
        yield before + json.dumps(document)
        before = ",\n  "
    yield "[]\n" if before.startswith("[") else "\n]\n"
