"""Tables with faults: files that their metadata never had, and unreadable checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from sparklake.errors import CorruptFileError, ExpiredError, InvalidInputError, MissingFileError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId, MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.planning.plan import plan_diff
from sparklake.metadata.delta.table_files import is_hidden
from sparklake.metadata.formats import table_of
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, metadata_version
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.rows.findings import Finding, FindingKind
from sparklake.udfs.diffs import Encode, added_keys_batch
from sparklake.udfs.observed_changes import metadata_batch
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment
from sparklake.verbs.delta.checkpoint_files import is_whole
from sparklake.verbs.delta.tree_log import TreeLog, read_log
from sparklake.verbs.diffs.differences import streamed_keys
from sparklake.verbs.history.origins import WalkLimits, last_changes
from sparklake.verbs.iceberg.tree_table import open_iceberg
from sparklake.verbs.objects.owners import find_owner
from sparklake.verbs.tables.unions import record_ids
from sparklake.verbs.tables.version import tree_table

_LIMITS = WalkLimits(commits=20_000, trees=200)
_MAX_FILES = 1_000
"""The maximum number of files of a table whose origin is looked up."""


def _is_iceberg(folder: bytes) -> bool:
    return folder.endswith(METADATA_FOLDER.encode())


_ORIGINS = ("cherry-pick-origin", "merge-origin")
"""The labels of commits that have changes of another one, which is not their parent."""


def table_findings(context: Context, moment: Moment) -> Iterator[Finding]:
    """Yield the tables at heads of branches with faults.

    Unreadable checkpoints of Delta logs are faults, and plain files that one side of a merge lost:
    the commit that added such a file had no table metadata above it, and the commit that created
    the metadata did not have the file. So leftovers of failed writes, removed files and files that
    a migration did not take over are none. Metadata is read on the driver, table by table.
    """
    for head, branches in moment.heads.items():
        if head in moment.commits and head not in moment.expired:
            tables = _HeadTables(context, moment, moment.commits[head], tuple(branches))
            # Other findings are about unreadable trees and objects.
            with suppress(MissingFileError, CorruptFileError, ExpiredError):
                yield from tables.findings()


@dataclass(frozen=True, slots=True)
class _HeadTables:
    context: Context
    moment: Moment
    head: Commit
    branches: tuple[str, ...]

    def findings(self) -> Iterator[Finding]:
        for folder in sorted({*self._added(EMPTY_META_RANGE, b"", metadata_batch)}):
            log = read_log(self.context, self.head.meta_range_id, folder)
            with suppress(UnmergeableTableError, InvalidInputError):
                lost = self._lost_files(log)
                if lost:
                    yield self._finding(FindingKind.TABLE_LACKS_FILES, folder, lost)
            with suppress(UnmergeableTableError, InvalidInputError):
                broken = [] if _is_iceberg(folder) else self._unreadable_checkpoints(log)
                if broken:
                    yield self._finding(FindingKind.CHECKPOINT_UNREADABLE, folder, broken)

    def _unreadable_checkpoints(self, log: TreeLog) -> list[bytes]:
        keys = sorted(key for keys in log.checkpoints.values() for key in keys)
        return [key for key in keys if not is_whole(log.file(key), self.branches[0])]

    def _finding(self, kind: FindingKind, folder: bytes, keys: list[bytes]) -> Finding:
        table = table_of(folder).decode(errors="replace")
        paths = [each.decode(errors="replace") for each in keys]
        shown = ", ".join(repr(each.removeprefix(table)) for each in paths[:3])
        return Finding(
            kind,
            table.rstrip("/") or "/",
            f"{shown}{', ...' if len(keys) > 3 else ''}",
            first_path=paths[0],
            last_path=paths[-1],
            commits=(self.head.id,),
            commit_count=1,
            branches=self.branches,
        )

    def _lost_files(self, log: TreeLog) -> list[bytes]:
        folder, table = log.folder, table_of(log.folder)
        birth = self._birth(log)
        if birth is None:
            return []
        added = self._added(birth.meta_range_id, table, added_keys_batch)
        data = (
            each for each in added if not (each.startswith(folder) or is_hidden(each[len(table) :]))
        )
        named = self._named_in_snapshot(table) if _is_iceberg(folder) else _named_in_log(log)
        unnamed = list(islice((each for each in data if each not in named), _MAX_FILES))
        origins = self._origins(unnamed)
        return [
            key for key, each in zip(unnamed, origins, strict=True) if self._is_plain(each, table)
        ]

    def _birth(self, log: TreeLog) -> Commit | None:
        """Return the commit that created the oldest metadata."""
        if _is_iceberg(log.folder):
            versions = {
                metadata_version(key[len(log.folder) :].decode(errors="replace")): key
                for key in log.records
            }
            versions.pop(-1, None)
        else:
            versions = dict(log.commits)
        return self._origins([versions[min(versions)]])[0] if versions else None

    def _origins(self, keys: list[bytes]) -> list[Commit | None]:
        """Return the commits that added files, or the ones that they were picked from."""
        ids = record_ids(self.context, self.head.meta_range_id, keys)
        commits = last_changes(self.context, self.head.id, sorted(ids.items()), _LIMITS)
        return [None if each is None else self._picked(each) for each in commits]

    def _picked(self, commit: Commit) -> Commit | None:
        origin = next(
            (commit.metadata[each] for each in _ORIGINS if each in commit.metadata), commit.id
        )
        return None if origin in self.moment.expired else self.moment.commits.get(CommitId(origin))

    def _is_plain(self, commit: Commit | None, table: bytes) -> bool:
        if commit is None:
            return False
        folder = table.decode(errors="replace")
        owner = find_owner(self.context, self.context.tree(commit).ranges, (), folder)
        return owner is None or owner.folder != folder

    def _named_in_snapshot(self, folder: bytes) -> set[bytes]:
        path, tree = folder.decode(errors="replace"), self.context.tree(self.head)
        table = open_iceberg(tree_table(self.context, tree, self.branches[0], path))
        return (
            set()
            if table is None
            else {table.path(each).encode() for each in table.paths(files=True)}
        )

    def _added(self, before: MetaRangeId, folder: bytes, encode: Encode) -> Iterator[bytes]:
        old, new = map(self.context.trees.get, (before, self.head.meta_range_id))
        plan = plan_diff(old.ranges, new.ranges, prefix_interval(folder))
        return streamed_keys(self.context, plan, encode, "tables")


def _named_in_log(log: TreeLog) -> set[bytes]:
    return {table_of(log.folder) + each.encode() for each in log.named()}
