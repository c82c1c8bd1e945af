"""Row merges as Delta commits: the log slice to edit, and the edit in dest's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparklake.graveler.algebra.classify import KeyOutcome, outcome_of
from sparklake.metadata.delta.actions import OF_FILES, Action, Fields, FileKey, fields_of
from sparklake.metadata.delta.delta_commits import MERGED, DeltaCommit
from sparklake.metadata.delta.union import claims
from sparklake.metadata.delta.union.continuation import continued
from sparklake.metadata.delta.union.log_sides import LogSide, RowClaim, UnionSignature, commit_info
from sparklake.metadata.delta.union.schemas import (
    IDENTITY,
    ROW_TRACKING,
    Metadata,
    columns_of,
    notes_of,
    same_metadata,
)
from sparklake.metadata.delta.union.unite import settled
from sparklake.metadata.union.commits import CommitsApart
from sparklake.metadata.union.conflicts import UnmergeableTableError

Files = Mapping[FileKey, Fields]

_DOMAINS = (ROW_TRACKING, "delta.clustering")
"""The domains that Delta's writer reads."""

_STRIPPED = ("delta.autoOptimize", "delta.inCommitTimestampEnablement", "delta.checkpoint")
"""Prefixes of properties for the whole log, without effect on the rows."""

_TIME = "inCommitTimestamp"


def touched_paths(sides: Iterable[LogSide]) -> frozenset[str]:
    """Return the files in commits since the sides diverged. Sides share all other live files."""
    commits = (commit for side in sides for commit in side.commits)
    return frozenset(key.path for each in commits for key in (*each.adds, *each.removes))


def editable(dest: Files, others: Iterable[Files]) -> list[Fields]:
    """Return dest's live files with possibly changing rows: those that another side lacks."""
    others = [*others]
    return [fields for key, fields in dest.items() if any(key not in each for each in others)]


def is_merged_by_files(base: Files, source: Files, dest: Files, union: Files) -> bool:
    """Return whether a union has the files of a three-way merge by paths.

    It has others if dest has earlier commits of source, as after a cherry-pick, and changed their
    files. Of a file with vectors of both sides, a union has the rows that neither deleted.
    """
    sides = [{key.path: key for key in each} for each in (base, source, dest, union)]
    for path in {path for each in sides for path in each}:
        old, theirs, ours, merged = (each.get(path) for each in sides)
        outcome = outcome_of(theirs == ours, theirs == old, ours == old)
        if outcome is KeyOutcome.CONFLICT:
            if None in (theirs, ours, merged):
                return False
        elif merged != (theirs if outcome is KeyOutcome.TAKE_SOURCE else ours):
            return False
    return True


@dataclass(frozen=True, slots=True)
class RowSettings:
    """The merged table's settings. `actions` are those that dest's log lacks.

    They are valid if dest's rows satisfy the claims. Delta checks the rows that it writes.
    """

    metadata: Fields
    protocol: Fields
    actions: tuple[Action, ...]
    row_claims: tuple[RowClaim, ...]
    merged: tuple[str, ...]
    """The origins of source's commits, of which dest gets the effects."""


def row_settings(base: LogSide, source: LogSide, dest: LogSide) -> RowSettings:
    """Return the settings of a merge of rows, under the same rules as in a union of commits."""
    for side in (source, dest):
        if side.metadata is None or side.protocol is None:
            raise UnmergeableTableError("one side has no table, so there are no rows to merge")
        claims.check_features(side.protocol, side.metadata)
    apart = CommitsApart(base.commits, source.commits, dest.commits)
    theirs, before = apart.theirs, base.metadata or {}
    for holder, side in (("source", source), ("dest", dest)):
        _check_columns(before, side.metadata or {}, holder)
    claims.check_rewritten(before, replace(source, own=theirs), dest, "source", "dest")
    claims.check_rewritten(before, replace(dest, own=apart.ours), source, "dest", "source")
    # Dest gets no file of source, but rows that Delta checks as it writes them.
    unread = replace(
        source, own=_without_files(theirs), commits=tuple(_without_files(source.commits))
    )
    steps, dropped, row_claims = settled(base, unread, replace(dest, own=apart.ours))
    before, protocol = dest.metadata or {}, dest.protocol or {}
    metadata = [before, *steps.values()][-1]
    for name, column in columns_of(metadata).items():
        if any(each.startswith(IDENTITY) for each in notes_of(column)):
            raise UnmergeableTableError(
                f"rows with the identity column {column.get('name', name)!r} cannot be written "
                "again: take one side with source-wins or dest-wins, and repeat the changes of the "
                "other side"
            )
    actions: list[Action] = []
    if "protocol" not in dropped and source.protocol != dest.protocol:
        protocol = source.protocol or {}
        actions.append({"protocol": protocol})
    if not same_metadata(metadata, before):
        actions.append({"metaData": metadata})
    actions += _last_by_name(theirs, "txn", "appId")
    domains = _last_by_name(theirs, "domainMetadata", "domain")
    actions += [each for each in domains if each["domainMetadata"]["domain"] != ROW_TRACKING]
    merged = tuple(origin for each in theirs for origin in (each.origin, *each.merged))
    return RowSettings(metadata, protocol, tuple(actions), row_claims, merged)


def settings_over(sides: Sequence[LogSide]) -> RowSettings:
    """Return the settings of a merge over several bases, which must agree on them."""
    base, *others, source, dest = sides
    if not all(
        same_metadata(each.metadata, base.metadata) and each.protocol == base.protocol
        for each in others
    ):
        raise UnmergeableTableError("the merge bases disagree on the table's schema or properties")
    return row_settings(base, source, dest)


def can_merge_rows(sides: Sequence[LogSide]) -> bool:
    try:
        settings_over(sides)
    except UnmergeableTableError:
        return False
    return True


def _without_files(commits: Iterable[DeltaCommit]) -> list[DeltaCommit]:
    return [
        DeltaCommit(
            each.version, tuple(action for action in each.actions if not _OF_FILES & action.keys())
        )
        for each in commits
    ]


_OF_FILES = {*OF_FILES}


def _check_columns(before: Metadata, after: Metadata, changer: str) -> None:
    """Reject dropped columns: changes of their values would be lost."""
    columns = columns_of(after)
    for name, column in columns_of(before).items():
        if name not in columns:
            raise UnmergeableTableError(
                f"{changer} dropped the column {column['name']!r}, and changes of the other side "
                "to its rows would be lost: revert that commit, merge, and repeat it on dest"
            )


def _last_by_name(commits: Iterable[DeltaCommit], kind: str, name: str) -> list[Action]:
    last = {fields[name]: fields for each in commits for fields in each.fields(kind)}
    return [{kind: fields} for fields in last.values()]


def partial_log(
    settings: RowSettings, dest: LogSide, files: Iterable[Fields], timestamp: int
) -> list[Action]:
    """Return the first commit of a private table that has only the given files."""
    features = settings.protocol.get("writerFeatures") or ()
    domains_by_name: dict[str, Fields] = {
        each["domain"]: each for each in fields_of(settings.actions, "domainMetadata")
    }
    for name in _DOMAINS if "domainMetadata" in features else ():
        domain = domains_by_name.get(name) or dest.find_domain(name)
        if domain is not None and not domain.get("removed"):
            domains_by_name[name] = domain
    configuration = {
        name: value
        for name, value in (settings.metadata.get("configuration") or {}).items()
        if not name.startswith(_STRIPPED)
    }
    info: Action = {"commitInfo": {"timestamp": timestamp, _TIME: timestamp, "operation": "VIEW"}}
    return [
        info,
        {"protocol": settings.protocol},
        {"metaData": {**settings.metadata, "configuration": configuration}},
        *({"domainMetadata": each} for each in domains_by_name.values() if not each.get("removed")),
        *({"add": {**each, "dataChange": False}} for each in files),
    ]


def restated(
    entry: Sequence[Action], settings: RowSettings, dest: LogSide, signature: UnionSignature
) -> tuple[Action, ...]:
    """Restate the commit of a private table, possibly empty, as the next one of dest's log."""
    info = next(fields_of(entry, "commitInfo"), {})
    kinds = {kind for each in entry for kind in each}
    unexpected = kinds - {"commitInfo", "domainMetadata", *OF_FILES}
    if unexpected:
        raise UnmergeableTableError(f"Delta's commit has an unexpected {min(unexpected)!r} action")
    version = 0 if dest.last_commit is None else dest.last_commit.version + 1
    more = {"operationMetrics": info.get("operationMetrics") or {}, MERGED: list(settings.merged)}
    head = commit_info(signature, {"operation": "MERGE", "version": str(version)}, more)
    files = (each for each in entry if not set(OF_FILES).isdisjoint(each))
    commits, _ = continued(dest, [(head, *settings.actions, *files)], signature)
    return commits[0]
