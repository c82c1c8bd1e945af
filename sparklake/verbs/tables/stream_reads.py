"""Plans of streaming reads: the files that each commit on a branch adds to a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from sparklake.errors import TableChangedError
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.planning.plan import plan_diff
from sparklake.metadata.delta.file_names import LOG_FOLDER
from sparklake.metadata.delta.table_files import SKIPPED
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import get_commit, kept_commit
from sparklake.verbs.diffs.differences import diff_of_plan
from sparklake.verbs.tables.registry import found_format, get_format
from sparklake.verbs.tables.version import TableVersion, open_table, table_prefix, tree_table

if TYPE_CHECKING:
    from sparklake.frames.tables.parquet_scan import Scan, ScanFile

AGAIN = "start a new query, with a new checkpoint and from_ref, where to continue"


def head_id(context: Context, ref: str) -> str:
    """Return the commit id of a ref, without staged changes."""
    return get_commit(context, ref).id


def plan_scan(context: Context, ref: str, path: str) -> Scan:
    """Plan a read of a table: its columns and files, for Python data sources."""
    table = open_table(context, ref, path)
    return get_format(found_format(table)).scan(table)


@dataclass(frozen=True, slots=True)
class TableChange:
    """A commit's changes of a table: its visible files and its log, by name.

    With `skips`, commits that change or remove rows are left out, as a whole.
    """

    before: TableVersion
    after: TableVersion
    added: Sequence[str]
    altered: Sequence[str]
    log: Sequence[tuple[ChangeType, str]]
    skips: bool

    @property
    def what(self) -> str:
        return f"the commit {self.after.ref[:12]} of {self.after.path!r}"

    def reject(self, how: str) -> None:
        """Raise TableChangedError, unless the change is to be skipped."""
        if not self.skips:
            raise TableChangedError(
                f"{self.what} {how}, and a stream only delivers new rows. To leave such commits "
                "out, start the query again with the option skipChanges (skip_changes=True). To "
                "read the table again, start a new query, with a new checkpoint; to continue "
                f"after this commit, set its from_ref, the option fromRef, to {self.after.ref!r}"
            )


def plan_new_files(
    context: Context, path: str, start: str, end: str, *, skips: bool
) -> list[ScanFile]:
    """Return the files that a table has in the commit `end` and not yet in `start`.

    An empty `start` precedes everything. With `skips`, commits that change or remove files are
    left out, as a whole. Raises TableChangedError without it, and if `start` is no ancestor.
    """
    last = kept_commit(context, end)
    if not start:
        table = tree_table(context, context.tree(last), last.id, path)
        return [*plan_scan(context, last.id, path).files] if table.has_objects else []
    files: list[ScanFile] = []
    for commit in _commits_between(context, start, last, path):
        change = _change(context, commit, path, skips=skips)
        if change is not None:
            files += _new_files(context, change)
    return files


def _commits_between(context: Context, start: str, last: Commit, path: str) -> Sequence[Commit]:
    """Return the branch's own commits after `start`, the oldest first."""
    first = context.graph.commit(CommitId(start))
    commits, commit = list[Commit](), last
    while commit.id != first.id:
        if commit.generation <= first.generation or not commit.parents:
            raise TableChangedError(
                f"the stream of {path!r} stopped at the commit {first.id[:12]}, which is no longer "
                f"in the branch's own history of {last.id[:12]}: it was reset or rebased. "
                f"Compare both with `sparklake diff`, and {AGAIN}"
            )
        commits.append(commit)
        commit = context.graph.ancestor(commit.parents[0])
    return commits[::-1]


def _change(context: Context, commit: Commit, path: str, *, skips: bool) -> TableChange | None:
    kept_commit(context, commit.id)
    before = context.tree(context.graph.commit(commit.parents[0]))
    after, folder = context.tree(commit), table_prefix(path)
    plan = plan_diff(before.ranges, after.ranges, prefix_interval(key_prefix(folder)))
    added, altered = list[str](), list[str]()
    log = list[tuple[ChangeType, str]]()
    for batch in diff_of_plan(context, plan, commit.id, "diff").batches():
        names = pc.utf8_slice_codeunits(batch.column("path"), len(folder))
        hidden = pc.match_substring_regex(names, SKIPPED)
        for kind, name, is_hidden in zip(
            batch.column("type").to_pylist(), names.to_pylist(), hidden.to_pylist(), strict=True
        ):
            if name.startswith(LOG_FOLDER):
                log.append((ChangeType(kind), name.removeprefix(LOG_FOLDER)))
            elif not is_hidden:
                (added if kind == ChangeType.ADDED.value else altered).append(name)
    if not (added or altered or log):
        return None
    return TableChange(
        before=tree_table(context, before, commit.parents[0], path),
        after=tree_table(context, after, commit.id, path),
        added=added,
        altered=altered,
        log=log,
        skips=skips,
    )


def _new_files(context: Context, change: TableChange) -> Iterable[ScanFile]:
    if not change.before.has_objects:
        return plan_scan(context, change.after.ref, change.after.path).files
    name = found_format(change.after)
    if name != found_format(change.before):
        raise TableChangedError(
            f"{change.what} replaces the table with one of another format: {AGAIN}"
        )
    return get_format(name).new_files(change)
