"""What programs are told: commits, objects, differences and errors as JSON documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparklake.errors import HookFailedError, ImportErrorsError, MergeConflictError, SparklakeError
from sparklake.graveler.times import SECOND

if TYPE_CHECKING:
    from sparklake.engine.explanation import Explanation
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.guards import ProtectionRule
    from sparklake.graveler.ports import BranchState, Operation, RepositoryInfo, TagInfo, Write
    from sparklake.graveler.ports.registers import HookRun, Purge
    from sparklake.graveler.retention import Retention
    from sparklake.hooks.declarations import Action
    from sparklake.stores.cache import CacheUsage, DiskCache
    from sparklake.udfs.differences import FolderDiff
    from sparklake.udfs.objects.rows import ObjectInfo
    from sparklake.udfs.read import DiffRow
    from sparklake.verbs.base.differences import DiffTree
    from sparklake.verbs.exports.work import Exported
    from sparklake.verbs.gc.collect import Collection
    from sparklake.verbs.history.blame import BlameRow
    from sparklake.verbs.history.log import CommitSummary
    from sparklake.verbs.imports.import_objects import ImportReport
    from sparklake.verbs.merges.preview import MergePreview
    from sparklake.verbs.objects.list import Folder
    from sparklake.verbs.objects.restore import Restored
    from sparklake.verbs.objects.upload import FolderUpload
    from sparklake.verbs.refs.dump import RefsDump
    from sparklake.verbs.tables.row_diff import TableDiff

Document = Mapping[str, Any]

_IMPORT_ERRORS = 100
"""How many rows that cannot be imported are told; counts are of all."""


def repository_document(info: RepositoryInfo) -> Document:
    """Return what is said of a repository."""
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
    """Return what is said of a rule: what is blocked on the branches that it protects."""
    return {"pattern": rule.pattern, "blocked": sorted(each.value for each in rule.actions)}


def retention_document(retention: Retention | None) -> Document:
    """Return for how many days commits are kept, None for ever, and those of which branches."""
    if retention is None:
        return {"default_days": None, "branches": []}
    return {
        "default_days": retention.default_days,
        "branches": [asdict(each) for each in retention.branches],
    }


def cache_document(cache: DiskCache, usage: CacheUsage) -> Document:
    """Return what is said of a cache, and of some tables in it; sizes in bytes."""
    return {
        "folder": str(cache.folder),
        "tables": usage.tables,
        "size": usage.size,
        "max_bytes": cache.max_bytes,
    }


def branch_document(state: BranchState) -> Document:
    """Return what is said of a branch; `dirty` tells whether anything is staged.

    `expires` is in unix seconds, None for never; `protected` is the actions that are blocked.
    """
    return {
        "name": state.name,
        "commit_id": state.commit_id,
        "dirty": bool(state.layers),
        "hidden": state.hidden,
        "expires": state.expires,
        "expired": state.is_expired,
        "protected": sorted(each.value for each in state.guard.protected),
    }


def tag_document(tag: TagInfo) -> Document:
    """Return what is said of a tag."""
    return {"name": tag.name, "commit_id": tag.commit_id}


def dump_document(dump: RefsDump) -> Document:
    """Return what is said of a dump; changes staged on the `dirty` branches are not in it."""
    return {
        **asdict(dump.manifest),
        "branches": dump.branches,
        "tags": dump.tags,
        "commits": dump.commits,
        "dirty": list(dump.dirty),
    }


def collection_document(made: Collection) -> Document:
    """Return what is said of a garbage collection; `bytes` are those of the garbage."""
    run = made.run
    return {
        "id": run.id,
        "state": run.state,
        "objects_listed": run.objects_listed,
        "objects": run.objects,
        "bytes": run.bytes,
        "commits_expired": run.commits_expired,
        "sample": [object_document(each) for each in made.sample],
    }


def commit_document(commit: Commit) -> Document:
    """Return what is said of a commit; the date is in unix seconds."""
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
    """Return what is said of a commit in a log; where it has expired, that too."""
    commit, has_expired = row
    return {**commit_document(commit), **({"expired": True} if has_expired else {})}


def summary_document(shown: CommitSummary) -> Document:
    """Return what is said of a commit, and how many objects differ from its first parent's."""
    changes = {"added": shown.added, "removed": shown.removed, "changed": shown.changed}
    return {**log_document((shown.commit, shown.has_expired)), "changes": changes}


def object_document(each: ObjectInfo) -> Document:
    """Return what is said of an object; size in bytes, time in unix seconds."""
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


def upload_document(path: str, made: FolderUpload) -> Document:
    """Return what is said of a folder that was put under a path, and what was skipped."""
    skipped = [{"path": each.path, "reason": each.reason.value} for each in made.skipped]
    return {"path": path, "put": made.count, "skipped": skipped}


def folder_document(each: ObjectInfo | Folder) -> Document:
    """Return what is said of a line of one level: an object, or a prefix that several share."""
    # Not at the top: it loads Arrow.
    from sparklake.verbs.objects.list import Folder

    if isinstance(each, Folder):
        return {"type": "prefix", "path": each.path}
    return object_document(each)


def diff_document(row: DiffRow) -> Document:
    """Return what is said of an object that differs."""
    said = {
        "type": row.type.value,
        "path": row.path,
        "size": row.size,
        "left_checksum": row.left_checksum,
        "right_checksum": row.right_checksum,
        "base_checksum": row.base_checksum,
    }
    return said if row.reason is None else {**said, "reason": row.reason}


def blame_document(row: BlameRow) -> Document:
    """Return what is said of an object and the commit in which it became what it is."""
    return {
        "path": row.path,
        "commit_id": row.commit.id,
        "committer": row.commit.committer,
        "message": row.commit.message,
        "creation_date": row.commit.creation_date,
    }


def folder_diff_document(row: FolderDiff) -> Document:
    """Return what is said of what differs in a folder; bytes are those that came, and went."""
    return asdict(row)


def diff_tree_document(tree: DiffTree) -> Document:
    """Return what is said of what differs in a folder, and of the folders and objects in it."""
    return {**asdict(tree.total), "children": list(map(diff_tree_document, tree.children.values()))}


def table_diff_document(found: TableDiff) -> Document:
    """Return how many rows of a table differ, in which columns, and of how many files."""
    return {
        **asdict(found.counts()),
        "schema_changes": [
            {"column": each.column, "change": each.change, "left": each.left, "right": each.right}
            for each in found.schema_changes
        ],
        "files": {"left": len(found.left_files), "right": len(found.right_files)},
    }


def operation_document(each: Operation) -> Document:
    """Return what is said of a move of a ref; None is where there is no ref, dates in seconds."""
    return {name: value for name, value in asdict(each).items() if name != "microseconds"}


def restored_document(made: Restored) -> Document:
    """Return what is said of paths that were restored from a commit."""
    changes = {"added": made.added, "removed": made.removed, "changed": made.changed}
    return {"commit_id": made.commit.id, "staged": changes}


def export_document(made: Exported) -> Document:
    """Return what is said of an export."""
    return asdict(made)


def purge_document(made: Purge, receipt: str) -> Document:
    """Return what is said of a purge, and of where its receipt lies."""
    return {**asdict(made), "patterns": list(made.patterns), "state": made.state.value} | {
        "receipt": receipt
    }


def preview_document(said: MergePreview) -> Document:
    """Return what is said of a merge that was not made; sizes in bytes."""
    kinds = ("added", "removed", "changed")
    return {
        "base": said.base.id,
        "source": said.source.id,
        "dest": said.dest.id,
        "changes": {kind: getattr(said, kind) for kind in kinds},
        "bytes": {kind: getattr(said, f"{kind}_bytes") for kind in kinds},
        "count": said.conflict_count,
        "unresolved": said.unresolved,
        "delta": list(said.united),
        "taken": dict(said.taken),
        "conflicts": [diff_document(row) for row in said.conflicts],
        "cost": explanation_document(said.cost),
    }


def hook_run_document(run: HookRun) -> Document:
    """Return what is said of a run of hooks; the date is in unix seconds."""
    return {
        **asdict(run),
        "status": run.status.value,
        "hooks": [{**asdict(each), "status": each.status.value} for each in run.hooks],
    }


def write_document(write: Write) -> Document:
    """Return what is said of a write that has not landed; the date is in unix seconds."""
    return {**asdict(write), "state": write.state.value}


def action_document(action: Action) -> Document:
    """Return what is said of a file of hooks; no branches or tags are all of them."""
    return {
        "file": action.path,
        "name": action.name,
        "on": {event.value: list(globs) for event, globs in action.on.items()},
        "hooks": {each.id: each.type.value for each in action.hooks},
    }


def explanation_document(said: Explanation) -> Document:
    """Return what is said of a plan; bytes are raw ones, sides in their order."""
    return asdict(said)


def import_document(report: ImportReport) -> Document:
    """Return what is said of an import: its commit, and what was left out, the first rows too."""
    return {
        **commit_document(report.commit),
        "objects": report.objects,
        **_errors_document(report),
    }


def _errors_document(found: ImportReport | ImportErrorsError) -> Document:
    errors: Any = found.errors
    rows = [] if errors is None else errors.slice(0, _IMPORT_ERRORS).to_pylist()
    return {"counts": dict(found.counts), "errors": rows, "errors_to": found.errors_to}


def error_document(error: SparklakeError) -> Document:
    """Return what is said of a failure; of a merge, with the conflicts."""
    said = {"error": str(error), "kind": error.kind}
    if isinstance(error, HookFailedError):
        return {**said, "run": error.run_id}
    if isinstance(error, ImportErrorsError):
        return {**said, **_errors_document(error)}
    if not isinstance(error, MergeConflictError):
        return said
    rows: Iterable[Any] = error.conflicts
    return {**said, "count": error.count, "conflicts": [diff_document(row) for row in rows]}


def json_object(document: Document) -> str:
    """Return a document as JSON, in ASCII: no terminal or pipe can garble it."""
    return json.dumps(document, indent=2)


def json_line(document: Document) -> str:
    """Return a document as JSON on one line, in ASCII."""
    return f"{json.dumps(document)}\n"


def json_list(documents: Iterable[Document]) -> Iterator[str]:
    """Yield a JSON list, a line each, as its documents come.

    Nothing is yielded before there is a first document or the end: an error that comes at once
    leaves no half a list.
    """
    before = "[\n  "
    for document in documents:
        yield before + json.dumps(document)
        before = ",\n  "
    yield "[]\n" if before.startswith("[") else "\n]\n"
