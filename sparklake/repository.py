"""A repository: its refs, and the verbs between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from sparklake.argument_types import checks_arguments
from sparklake.branch import Branch
from sparklake.engine.explanation import Explanation
from sparklake.engine.rows import Rows
from sparklake.graveler.commits import Commit
from sparklake.graveler.keys import listed
from sparklake.graveler.ports import BranchState, Operation, RepositoryInfo, TagInfo, Write
from sparklake.graveler.ports.registers import HookRun, Purge
from sparklake.graveler.ranges import MetaRange
from sparklake.udfs.objects.rows import ObjectInfo
from sparklake.udfs.strategies.choosing import RulesLike, StrategyLike, parse_resolution
from sparklake.verbs.base import read
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.differences import Differences
from sparklake.verbs.base.resolve import get_branch, get_commit
from sparklake.verbs.base.signing import sign
from sparklake.verbs.base.snapshot import Snapshot, kept_object, open_snapshot, stat_object
from sparklake.verbs.delta.format import DELTA_FORMAT
from sparklake.verbs.exports.export import export
from sparklake.verbs.exports.work import Exported, ExportTerms
from sparklake.verbs.gc.collect import GRACE, Collection, collect_garbage, garbage_rows
from sparklake.verbs.history import log as history
from sparklake.verbs.history.blame import Blame, blame
from sparklake.verbs.history.graph import HistoryGraph, history_graph
from sparklake.verbs.history.lanes import names_of
from sparklake.verbs.history.log import CommitSummary, Log, LogOptions
from sparklake.verbs.hooks.guard import get_hook_run, list_hook_runs
from sparklake.verbs.merges import bases, preview
from sparklake.verbs.merges import merge as merges
from sparklake.verbs.merges.diff import diff_refs
from sparklake.verbs.merges.merge import MergeTerms
from sparklake.verbs.merges.preview import MergePreview
from sparklake.verbs.objects import files
from sparklake.verbs.objects import list as folders
from sparklake.verbs.objects.list import Folder
from sparklake.verbs.purges.purge import PurgeTerms, get_purge, purge, receipt_of, resume_purge
from sparklake.verbs.refs import branches as refs
from sparklake.verbs.refs.branches import prune_branches
from sparklake.verbs.refs.dump import RefsDump, dump_refs
from sparklake.verbs.refs.moves import head_at, list_operations
from sparklake.verbs.refs.settings import LiveSettings
from sparklake.verbs.tables import read as tables
from sparklake.verbs.tables.row_diff import TableDiff, diff_table
from sparklake.verbs.tables.version import open_table
from sparklake.verbs.tables.written import abandon_write, list_writes

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from pyspark.sql import DataFrame


@checks_arguments
class Repository:
    """One versioned lake: a storage namespace, and the refs over it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"Repository(lakefs://{self.name}, {self.info.storage_namespace})"

    @property
    def name(self) -> str:
        """The name."""
        return self.info.name

    @property
    def info(self) -> RepositoryInfo:
        """The lake's information on the repository."""
        return self._context.info

    @property
    def settings(self) -> LiveSettings:
        """The settings: read-only, protected branches, metadata, retention."""
        return LiveSettings(self._context)

    # --- branches and tags ------------------------------------------------------------------------

    def create_branch(
        self, name: str, source: str, hidden: bool = False, expires: timedelta | None = None
    ) -> Branch:
        """Create a branch at any ref, in constant time; raise AlreadyExistsError.

        Listings leave out a hidden branch. After the time `expires`, it may be pruned.
        """
        refs.create_branch(self._context, name, source, hidden=hidden, expires=expires)
        return Branch(self._context, name)

    def branch(self, name: str) -> Branch:
        """Return a branch; raise RefNotFoundError."""
        return Branch(self._context, get_branch(self._context, name).name)

    def branches(self, hidden: bool = False) -> list[Branch]:
        """Return the branches in byte order of names; hidden ones only on request."""
        return [Branch(self._context, each.name) for each in self.branch_states(hidden)]

    def branch_states(self, hidden: bool = False) -> Sequence[BranchState]:
        """Return the branches at one moment; hidden ones only on request."""
        return [each for each in self._context.refs.branches.list() if hidden or not each.hidden]

    def prune_branches(self, dry_run: bool = False) -> list[BranchState]:
        """Delete expired branches and their staged changes; return them.

        The default branch and protected ones stay. A dry run deletes nothing.
        """
        return prune_branches(self._context, dry_run=dry_run)

    def delete_branch(self, name: str) -> None:
        """Delete a branch and its staged changes; its commits stay.

        Raises ProtectedError for the default branch.
        """
        refs.delete_branch(self._context, name)

    def create_tag(self, name: str, ref: str) -> TagInfo:
        """Create a tag, which never moves, at any ref; raise AlreadyExistsError."""
        return refs.create_tag(self._context, name, ref)

    def tags(self) -> list[TagInfo]:
        """Return all tags in the byte order of their names."""
        return list(self._context.refs.tags.list())

    def delete_tag(self, name: str) -> None:
        """Delete a tag; raise RefNotFoundError."""
        refs.delete_tag(self._context, name)

    # --- reading ----------------------------------------------------------------------------------

    def resolve(self, ref: str) -> Commit:
        """Return the commit of a ref: an id, branch, tag or unique prefix, then ~N and ^N."""
        return get_commit(self._context, ref)

    def at_time(self, branch: str, moment: datetime) -> Commit:
        """Return the commit that was the branch head at a timezone-aware datetime.

        Raises RefNotFoundError for a time before the branch was created.
        """
        return head_at(self._context, branch, moment)

    def tree(self, ref: str) -> MetaRange:
        """Return the tree of a ref, as committed: its ranges, without reading them."""
        return self._context.tree(self.resolve(ref))

    def objects(self, ref: str, prefix: str = "") -> Rows[ObjectInfo]:
        """Return the objects of a ref, including a branch's staged changes.

        `branch@` leaves them out, and `branch$` has only them. Iterate over the result, or call
        `to_arrow()` or `to_df()`.
        """
        return read.list_objects(self._context, ref, prefix)

    def folder(self, ref: str, prefix: str = "") -> Iterator[ObjectInfo | Folder]:
        """Yield the objects and folders directly under a prefix, in key order.

        The other objects in a folder are not read.
        """
        return folders.list_folder(self._context, ref, prefix)

    def stat(self, ref: str, path: str, to_read: bool = False) -> ObjectInfo:
        """Return one object; raise ObjectNotFoundError.

        With `to_read`, raises ExpiredError if its bytes may be deleted.
        """
        return (kept_object if to_read else stat_object)(self._context, ref, path)

    def at(self, ref: str) -> Snapshot:
        """Return a snapshot of a ref for lookups: `stat`, `exists`, `lookup` of many."""
        return open_snapshot(self._context, ref)

    def read_bytes(self, ref: str, path: str) -> bytes:
        """Return the content of one object; raise MissingFileError, CorruptFileError."""
        return read.read_object(self._context, ref, path)

    def open(
        self,
        ref: str,
        path: str,
        mode: str = "rb",
        encoding: str = "utf-8",
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open one object for reading, in its current state: "rb" for bytes, "r" for text.

        Only the requested parts are read; reading raises MissingFileError, CorruptFileError.
        """
        text = files.TextOptions(encoding, errors, newline)
        return files.open_to_read(self._context, ref, path, files.Mode.of(mode), text)

    def read(
        self,
        ref: str,
        path: str,
        format: str = "parquet",  # noqa: A002  (Spark's own word)
        timestamp: datetime | None = None,
        **options: Any,
    ) -> DataFrame:
        """Return the table under a path as a DataFrame, including partition columns.

        With a timestamp, return its state on a branch at that time. `options` go to Spark's reader.
        Raises ObjectNotFoundError.
        """
        ref = ref if timestamp is None else self.at_time(ref, timestamp).id
        return tables.read_table(
            self._context, open_table(self._context, ref, path), format, options, DELTA_FORMAT
        )

    def view(
        self,
        ref: str,
        path: str,
        format: str = "parquet",  # noqa: A002  (Spark's own word)
        **options: Any,
    ) -> str:
        """Return the URI of a Delta table that shows the files under a path.

        It shows Parquet files or a Delta table, for any reader of Delta. It never changes, and must
        not be written to.
        """
        return tables.view_table(
            self._context, open_table(self._context, ref, path), format, options, DELTA_FORMAT
        )

    def diff(
        self,
        left: str,
        right: str,
        prefix: str = "",
        three_way: bool = False,
        three_dot: bool = False,
    ) -> Differences:
        """Return the differences from left to right, as committed.

        Three-way: the changes in left if right were merged into it, including conflicts. Three-dot:
        the changes of right since the merge base. Iterate over the result, or call `by_folder()`,
        `summary()`, `tree()`, `to_arrow()` or `to_df()`.
        """
        return diff_refs(
            self._context, left, right, prefix, three_way=three_way, three_dot=three_dot
        )

    def diff_table(
        self,
        left: str,
        right: str,
        path: str,
        key: Sequence[str],
        format: str = "parquet",  # noqa: A002  (Spark's own word)
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> TableDiff:
        """Return the rows of a table that differ from left to right, as committed.

        The format is parquet, orc or delta; `columns` are those to compare, by default all. Only
        files that differ are read. Call `to_df()`, `counts()` or `schema_changes`.
        """
        refs = left, right
        return diff_table(self._context, refs, path, key, format, columns, options, DELTA_FORMAT)

    def diff_uncommitted(self, branch: str, prefix: str = "") -> Differences:
        """Return the staged changes of a branch that would change it."""
        return read.diff_uncommitted(self._context, branch, prefix)

    def log(
        self,
        ref: str,
        amount: int | None = None,
        after: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        stop_at: str | None = None,
        first_parent: bool = False,
        no_merges: bool = False,
        path: str | None = None,
        prefix: str | None = None,
    ) -> Log:
        """Return the commits that a ref contains, newest first, each after its descendants.

        Iterate over the result, or call `to_arrow()` or `to_df()`. It starts after the ref `after`
        and ends with the ref `stop_at`; `since` and `until` are timezone-aware datetimes. Only the
        required part of history is read. With a path or a prefix, it contains only commits that
        changed the object, or one below the prefix.
        """
        asked = LogOptions(
            *(amount, after, since, until, stop_at, first_parent, no_merges), path, prefix
        )
        return history.log(self._context, ref, asked)

    def graph(self, ref: str, amount: int = 100, first_parent: bool = False) -> HistoryGraph:
        """Return the latest commits of a ref as a picture, which a notebook shows.

        `save(path)` writes it as SVG or PNG. Needs the extra `graph`.
        """
        names = names_of(self.branch_states(), self.tags())
        commits = self.log(ref, amount, first_parent=first_parent)
        return history_graph(commits, names, 1 if first_parent else None)

    def blame(self, ref: str, prefix: str = "") -> Blame:
        """Return, for each object under a prefix, the last commit that changed it.

        Iterate over the result, or call `to_arrow()` or `to_df()`. Staged changes are not part of
        history.
        """
        return blame(self._context, ref, prefix)

    def changes(self, ref: str, prefix: str = "") -> Blame:
        """Return the result of `blame`, one row per object."""
        return self.blame(ref, prefix)

    def show(self, ref: str) -> CommitSummary:
        """Return the commit of a ref, and count its changes against its first parent."""
        return history.show(self._context, ref)

    def merge_base(self, left: str, right: str) -> Commit:
        """Return the best common ancestor of two refs; raise RefNotFoundError."""
        one, other = (self.resolve(ref) for ref in (left, right))
        return bases.merge_base(self._context, one, other)

    def merge_bases(self, left: str, right: str) -> list[Commit]:
        """Return all best common ancestors of two refs.

        The first is that of `merge_base`; there are several after criss-cross merges.
        """
        one, other = (self.resolve(ref) for ref in (left, right))
        return bases.common_ancestors(self._context, one, other)

    def plan_merge(
        self, source: str, dest: str, allow_empty: bool = False, paths: Sequence[str] | None = None
    ) -> Explanation:
        """Return what a merge would read and copy, and where; nothing changes.

        Raises DirtyBranchError and NoChangesError as the merge would.
        """
        terms = MergeTerms.of(squash=False, allow_empty=allow_empty, paths=paths)
        return merges.explain_merge(self._context, source, dest, terms)

    def preview_merge(
        self,
        source: str,
        dest: str,
        strategy: StrategyLike = None,
        allow_empty: bool = False,
        paths: Sequence[str] | None = None,
        rules: RulesLike = None,
        delta: bool = True,
        squash: bool = False,
    ) -> MergePreview:
        """Return the changes, conflicts and cost of a merge; nothing changes.

        Raises StrategyError, DirtyBranchError and NoChangesError as the merge would: with `squash`
        or `paths`, also NoChangesError if dest would not change.
        """
        resolution = parse_resolution(strategy, rules, delta)
        terms = MergeTerms.of(squash, allow_empty, paths)
        return preview.preview_merge(self._context, source, dest, resolution, terms)

    def operations(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Return the latest moves of refs, newest first; of one branch or tag, or of all.

        Raises InvalidInputError for a limit below 1.
        """
        return list_operations(self._context, limit, ref)

    def hook_runs(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Return the latest runs of hooks, newest first; of one branch or tag, or of all.

        Raises InvalidInputError for a limit below 1.
        """
        return list_hook_runs(self._context, limit, ref)

    def hook_run(self, run_id: str) -> HookRun:
        """Return a run of hooks by its id; raise NotFoundError."""
        return get_hook_run(self._context, run_id)

    def writes(self) -> Sequence[Write]:
        """Return the open and abandoned writes of tables, oldest first.

        A write whose driver died stays open until it is abandoned.
        """
        return list_writes(self._context)

    def abandon_write(self, write_id: str) -> Write:
        """Abandon an open write; raise NotFoundError, WriteEndedError.

        It can never stage its files.
        """
        return abandon_write(self._context, write_id)

    def dump_refs(self) -> RefsDump:
        """Write all branches, tags and commits at one moment into the storage namespace.

        `lake.restore_repository` and lakeFS can create a repository from them. Staged changes are
        not included. Raises NamespaceInUseError if another repository has taken over.
        """
        return dump_refs(self._context)

    def export(
        self,
        ref: str,
        to: str,
        prefix: str = "",
        since: str | None = None,
        incremental: bool = False,
        keep_removed: bool = False,
        overwrite: bool = False,
        manifest_only: bool = False,
        dry_run: bool = False,
        manifest_format: str = "parquet",
    ) -> Exported:
        """Copy the objects of a commit to a folder or bucket, with a manifest.

        Staged changes are not included. With `since`, or `incremental`, which continues from the
        last export there, only differences are copied, and removed objects are deleted unless
        `keep_removed`. `overwrite` accepts a place that is not empty. Raises UnfitError,
        MissingFileError, CorruptFileError; docs/export.md has the rest.
        """
        asked = (since, incremental, keep_removed, overwrite, manifest_only, dry_run)
        return export(self._context, ref, to, ExportTerms(prefix, *asked, manifest_format))

    def manifest(self, ref: str, to: str, prefix: str = "", format: str = "parquet") -> Exported:  # noqa: A002
        """Write the objects of a commit as rows to an empty folder; copy no object.

        `format` is parquet, csv or jsonl.
        """
        return self.export(ref, to, prefix, manifest_only=True, manifest_format=format)

    def purge(
        self,
        paths: Sequence[str],
        message: str = "",
        commit: bool = False,
        even_shared: bool = False,
        also_external: bool = False,
        dry_run: bool = False,
    ) -> Purge:
        """Delete the bytes of objects from all of history; ids stay valid.

        `paths` are exact, globs, or prefixes that end with '/'. Raises PurgeBlockedError if a
        branch has them, unless `commit` commits their removal, or if other paths share the bytes,
        unless `even_shared`. Objects outside the storage namespace are only listed, unless
        `also_external`. docs/purge.md has the rest.
        """
        switches = (commit, even_shared, also_external, dry_run)
        chosen = listed(paths, "the paths of a purge")
        return purge(self._context, PurgeTerms(chosen, message, *switches))

    def resume_purge(self, purge_id: str) -> Purge:
        """Resume an unfinished purge; raise NotFoundError."""
        return resume_purge(self._context, purge_id)

    def purges(self) -> Sequence[Purge]:
        """Return all purges, newest first."""
        return self._context.refs.purges.list()

    def get_purge(self, purge_id: str) -> Purge:
        """Return a purge by its id; raise NotFoundError."""
        return get_purge(self._context, purge_id)

    def receipt(self, purge_id: str) -> str:
        """Return the folder of a purge's receipt, which has Parquet files."""
        return receipt_of(self._context, get_purge(self._context, purge_id))

    def collect_garbage(
        self, dry_run: bool = False, sweep: str | None = None, grace: timedelta = GRACE
    ) -> Collection:
        """Delete objects of the namespace that no kept commit and no staged change names.

        Commits that the retention does not keep expire. Objects younger than the grace period stay.
        A dry run deletes nothing; its list can be swept later by its id. Raises CollectionOpenError
        while another collection is running.
        """
        return collect_garbage(self._context, dry_run=dry_run, sweep=sweep, grace=grace)

    def garbage(self, run_id: str) -> Rows[ObjectInfo]:
        """Return all garbage that a collection has found, by address; raise NotFoundError."""
        return garbage_rows(self._context, run_id)

    # --- writing ----------------------------------------------------------------------------------

    def merge(
        self,
        source: str,
        dest: str,
        strategy: StrategyLike = None,
        message: str | None = None,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        squash: bool = False,
        allow_empty: bool = False,
        paths: Sequence[str] | None = None,
        rules: RulesLike = None,
        delta: bool = True,
    ) -> Commit:
        """Merge a ref into a branch as a commit with parents [dest, source].

        `rules` give strategies by globs over paths, and `strategy` is for all other paths: a name,
        a `module:function`, or a function as described in docs/merging.md. Without one, keys that
        both sides changed raise MergeConflictError, and nothing changes: `.count` is their number,
        `.conflicts` has the first 10,000. The logs of a Delta table that both sides wrote to are
        united first, unless `delta` is False.

        With `squash`, or with chosen `paths` (objects, or prefixes that end with '/'), its only
        parent is dest: the next merge uses the same base.

        Raises StrategyError if a strategy fails, DirtyBranchError for a dest with staged changes,
        and NoChangesError if it already has all of source.
        """
        resolution = parse_resolution(strategy, rules, delta)
        terms = MergeTerms.of(squash, allow_empty, paths)
        text = message or terms.message(source, dest)
        signature = sign(self._context, text, committer, metadata)
        return merges.merge(self._context, source, dest, resolution, signature, terms)
