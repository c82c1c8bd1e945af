"""The kinds of findings, and findings as values and rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from sparklake.graveler.arrow_batches import required_schema


class Severity(str, Enum):
    """The consequence of a finding.

    An error means that data is lost, wrong or unreadable. A warning means that no data is lost, but
    a safeguard is. A leftover is harmless.
    """

    ERROR = "error"
    WARNING = "warning"
    LEFTOVER = "leftover"


class FindingKind(str, Enum):
    """A class of findings. The values never change."""

    # refs
    COMMIT_DAMAGED = "commit_damaged"
    GENERATION_WRONG = "generation_wrong"
    PARENT_MISSING = "parent_missing"
    SUMMARY_WRONG = "summary_wrong"
    REF_WITHOUT_COMMIT = "ref_without_commit"
    REF_EXPIRED = "ref_expired"
    DEFAULT_BRANCH_MISSING = "default_branch_missing"
    LOG_DIFFERS = "log_differs"
    STAGED_ROW_DAMAGED = "staged_row_damaged"
    NAMESPACE_MARKER_WRONG = "namespace_marker_wrong"
    GC_MARKER_DAMAGED = "gc_marker_damaged"
    DUMP_DAMAGED = "dump_damaged"
    FOREIGN_DUMP = "foreign_dump"
    COMMIT_LOST = "commit_lost"
    REF_LOST = "ref_lost"
    BRANCH_BEHIND = "branch_behind"
    # tables
    TREE_MISSING = "tree_missing"
    TREE_DAMAGED = "tree_damaged"
    RANGES_OVERLAP = "ranges_overlap"
    RANGE_MISSING = "range_missing"
    RANGE_DAMAGED = "range_damaged"
    RANGE_METADATA_MISMATCH = "range_metadata_mismatch"
    RECORD_DAMAGED = "record_damaged"
    TOMBSTONE_COMMITTED = "tombstone_committed"
    TABLE_LACKS_FILES = "table_lacks_files"
    CHECKPOINT_UNREADABLE = "checkpoint_unreadable"
    # objects
    OBJECT_MISSING = "object_missing"
    OBJECT_SIZE_DIFFERS = "object_size_differs"
    OBJECT_CONTENT_DIFFERS = "object_content_differs"
    OBJECT_UNREADABLE = "object_unreadable"
    ADDRESS_UNUSABLE = "address_unusable"
    RECEIPT_DAMAGED = "receipt_damaged"
    # leftovers
    PURGE_UNFINISHED = "purge_unfinished"
    COLLECTION_UNFINISHED = "collection_unfinished"
    OBJECT_UNREFERENCED = "object_unreferenced"
    OBJECT_YOUNG = "object_young"
    TREE_FILE_UNREFERENCED = "tree_file_unreferenced"
    TEMPORARY_FILE = "temporary_file"
    WRITE_OPEN = "write_open"
    BRANCH_EXPIRED = "branch_expired"


@dataclass(frozen=True, slots=True)
class KindFacts:
    """The severity, meaning and remedy of a kind of findings."""

    severity: Severity
    meaning: str
    remedy: str


_REPAIR = "`sparklake repair` lists the copies it can restore from"
_REFS = "`sparklake repair` restores it from a refs dump that contains it"
_GC = "`sparklake gc run` removes it after the grace period"

_K = FindingKind
_E, _W, _L = (partial(KindFacts, each) for each in Severity)

KIND_FACTS: Mapping[FindingKind, KindFacts] = {
    _K.COMMIT_DAMAGED: _E("a commit in Postgres does not match its id", _REFS),
    _K.GENERATION_WRONG: _E(
        "the generation of a commit does not exceed those of its parents", _REFS
    ),
    _K.PARENT_MISSING: _E("a parent of a commit is missing", _REFS),
    _K.SUMMARY_WRONG: _E(
        "the change summary of a commit lacks a change", "`sparklake repair` deletes the summary"
    ),
    _K.REF_WITHOUT_COMMIT: _E("a ref points to a missing commit", _REFS),
    _K.REF_EXPIRED: _E("a ref points to an expired commit", "move the branch, or delete the tag"),
    _K.DEFAULT_BRANCH_MISSING: _E(
        "the default branch is missing", "`sparklake repair` restores it from a refs dump"
    ),
    _K.LOG_DIFFERS: _W(
        "a ref does not match the operations log",
        "Postgres was changed manually: compare with `sparklake op log`, and hard-reset",
    ),
    _K.STAGED_ROW_DAMAGED: _E(
        "a staged row is not a record of an object", "stage the path again, or reset the branch"
    ),
    _K.NAMESPACE_MARKER_WRONG: _E(
        "the ownership marker of the namespace is missing, or that of another repository",
        "mount the disk, or let `sparklake repair` write the marker",
    ),
    _K.GC_MARKER_DAMAGED: _E(
        "the in-progress marker of a garbage collection is damaged",
        "`sparklake repair` writes the id of the unfinished collection into it",
    ),
    _K.DUMP_DAMAGED: _W(
        "the refs dump cannot be restored",
        "`sparklake repair`, or `sparklake refs dump`, writes a new one",
    ),
    _K.FOREIGN_DUMP: _W(
        "the refs dump was written by another program", "compare both, then dump with --overwrite"
    ),
    _K.COMMIT_LOST: _E("Postgres lacks a commit of the dump", _REFS),
    _K.REF_LOST: _E(
        "Postgres lacks a ref of the dump or the log",
        "`sparklake repair` recreates it from the log or the refs dump",
    ),
    _K.BRANCH_BEHIND: _E(
        "a branch never reached the commit of the dump",
        "Postgres is probably an older backup: `sparklake repair` fast-forwards the branch",
    ),
    _K.TREE_MISSING: _E("a metarange is missing", _REPAIR),
    _K.TREE_DAMAGED: _E("a metarange does not match its id, directory or index", _REPAIR),
    _K.RANGES_OVERLAP: _E("ranges of a metarange overlap", _REPAIR),
    _K.RANGE_MISSING: _E("a range is missing", _REPAIR),
    _K.RANGE_DAMAGED: _E("a range does not match its id, directory or index", _REPAIR),
    _K.RANGE_METADATA_MISMATCH: _E(
        "the metadata of a range in a metarange does not match the range", _REPAIR
    ),
    _K.RECORD_DAMAGED: _E("a range has records with wrong ids or entries", _REPAIR),
    _K.TOMBSTONE_COMMITTED: _E(
        "a commit contains tombstones", "restore the paths from another commit, and commit"
    ),
    _K.TABLE_LACKS_FILES: _E(
        "a merge left plain files in a table whose metadata never had them",
        "read them at the commit that `sparklake blame` shows, append the rows to the table, and "
        "delete the files",
    ),
    _K.CHECKPOINT_UNREADABLE: _W(
        "a checkpoint of a Delta log is empty, truncated or damaged, and reads skip it",
        "delete it if the log has all commits; Delta writes another one later",
    ),
    _K.OBJECT_MISSING: _E("an object is missing at its address", _REPAIR),
    _K.OBJECT_SIZE_DIFFERS: _E("an object has a different size", _REPAIR),
    _K.OBJECT_CONTENT_DIFFERS: _E("an object has different content", _REPAIR),
    _K.OBJECT_UNREADABLE: _E(
        "an object cannot be read", "see the message: fix the disk or the permissions"
    ),
    _K.ADDRESS_UNUSABLE: _W("an address is in an unsupported store", "import the object again"),
    _K.RECEIPT_DAMAGED: _W(
        "a purge receipt is partly unreadable", "restore the file from a backup"
    ),
    _K.PURGE_UNFINISHED: _W(
        "a purge is unfinished", "`sparklake purge resume`, unless it is still running"
    ),
    _K.COLLECTION_UNFINISHED: _L(
        "a garbage collection is unfinished", "`sparklake gc run` completes or removes it"
    ),
    _K.OBJECT_UNREFERENCED: _L("an object below data/ is unreferenced", _GC),
    _K.OBJECT_YOUNG: _L("an object below data/ is not referenced yet, or left by a crash", _GC),
    _K.TREE_FILE_UNREFERENCED: _L(
        "a tree file is not referenced by a retained commit, staged change or dump",
        "harmless; `sparklake gc run` removes it under a rule with --trees",
    ),
    _K.TEMPORARY_FILE: _L(
        "a temporary file is in use, or left by a crash",
        "`sparklake gc run` removes it after a day",
    ),
    _K.WRITE_OPEN: _L("a table write is open", "`sparklake abandon-write`, if its driver has died"),
    _K.BRANCH_EXPIRED: _L("a branch has expired", "`sparklake branch prune` deletes it"),
}


_HIDE_NAMES = {
    _K.COMMIT_DAMAGED,
    _K.PARENT_MISSING,
    _K.REF_WITHOUT_COMMIT,
    _K.DEFAULT_BRANCH_MISSING,
    _K.COMMIT_LOST,
    _K.REF_LOST,
    _K.BRANCH_BEHIND,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a check.

    `subject` is the commit, ref, tree file or object that it is about. `tree_file` is the range or
    metarange with the records. `first_path` and `last_path` are the affected paths. `commits` and
    `branches` are the first affected ones: branches whose head or staged changes are affected.
    """

    kind: FindingKind
    subject: str
    detail: str = ""
    tree_file: str = ""
    first_path: str = ""
    last_path: str = ""
    size: int = 0
    checksum: str = ""
    commits: tuple[str, ...] = ()
    commit_count: int = 0
    branches: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """The severity of the kind."""
        return KIND_FACTS[self.kind].severity

    @property
    def meaning(self) -> str:
        """The meaning of the kind, in a few words."""
        return KIND_FACTS[self.kind].meaning

    @property
    def hides_names(self) -> bool:
        """Whether a lost file may reference files and objects that seem unreferenced."""
        if self.kind is FindingKind.FOREIGN_DUMP:
            return self.detail != ""  # The detail lists what Postgres lacks.
        return self.kind in _HIDE_NAMES

    @property
    def remedy(self) -> str:
        """The remedy."""
        return KIND_FACTS[self.kind].remedy


MOST_AFFECTED = 20
"""The maximum number of commits and of branches in a finding."""

FINDING_SCHEMA = required_schema(
    kind=pa.string(),
    severity=pa.string(),
    subject=pa.string(),
    detail=pa.string(),
    tree_file=pa.string(),
    first_path=pa.string(),
    last_path=pa.string(),
    size=pa.int64(),
    checksum=pa.string(),
    commits=pa.list_(pa.string()),
    commit_count=pa.int64(),
    branches=pa.list_(pa.string()),
    remedy=pa.string(),
)
"""The rows of the report. `size`, in bytes, and `checksum` are those recorded in the entry."""


def finding_document(each: Finding) -> dict[str, Any]:
    """Return a finding as a row of FINDING_SCHEMA."""
    facts = {"kind": each.kind.value, "severity": each.severity.value, "remedy": each.remedy}
    values = {**asdict(each), **facts}
    return {name: values[name] for name in FINDING_SCHEMA.names}


def finding_rows(table: pa.Table) -> Iterator[Finding]:
    """Yield the findings in a table of FINDING_SCHEMA."""
    return (msgspec.convert(row, Finding) for row in table.to_pylist())


def finding_table(findings: Iterable[Finding]) -> pa.Table:
    """Return findings as a table of FINDING_SCHEMA."""
    return pa.Table.from_pylist(list(map(finding_document, findings)), schema=FINDING_SCHEMA)
