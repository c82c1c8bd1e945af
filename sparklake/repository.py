"""A repository: its refs, and the verbs between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from sparklake.argument_types import checks_arguments
from sparklake.branch import Branch
from sparklake.engine.explanation import Explanation
from sparklake.engine.lazy_rows import Rows
from sparklake.graveler.commits import Commit
from sparklake.graveler.keys import path_tuple
from sparklake.graveler.ports import BranchState, Operation, RepositoryInfo, TagInfo, Write
from sparklake.graveler.ports.registers import HookRun, Purge
from sparklake.graveler.ranges import MetaRange
from sparklake.udfs.objects.object_rows import ObjectInfo
from sparklake.udfs.strategies.choosing import RulesLike, StrategyLike, parse_resolution
from sparklake.verbs.base import read
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.differences import Differences
from sparklake.verbs.base.resolve import get_branch, get_commit
from sparklake.verbs.base.snapshot import Snapshot, kept_object, open_snapshot, stat_object
from sparklake.verbs.delta.format import DELTA_FORMAT
from sparklake.verbs.exports.export import export
from sparklake.verbs.exports.work import ExportOptions, ExportResult
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
from sparklake.verbs.merges.merge import MergeOptions
from sparklake.verbs.merges.preview import MergePreview
from sparklake.verbs.objects import list as folders
from sparklake.verbs.objects import open_files
from sparklake.verbs.objects.list import Folder
from sparklake.verbs.purges.purge import PurgeOptions, get_purge, purge, receipt_of, resume_purge
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
        """What the lake knows of the repository."""
        return self._context.info

    @property
    def settings(self) -> LiveSettings:
        """What can be set of it: read-only, protected branches, labels, retention."""
        return LiveSettings(self._context)

    # --- branches and tags ------------------------------------------------------------------------

    def create_branch(
        self, name: str, source: str, hidden: bool = False, expires: timedelta | None = None
    ) -> Branch:
        """Create a branch at any ref, in constant time; raise AlreadyExistsError.

        Listings leave a hidden one out. When the time until it expires is over, it may be pruned.
        """
        refs.create_branch(self._context, name, source, hidden=hidden, expires=expires)
        return Branch(self._context, name)

    def branch(self, name: str) -> Branch:
        """Return a branch; raise RefNotFoundError."""
        return Branch(self._context, get_branch(self._context, name).name)

    def branches(self, hidden: bool = False) -> list[Branch]:
        """Return the branches in the byte order of their names; the hidden ones only if asked."""
        return [Branch(self._context, each.name) for each in self.branch_states(hidden)]

    def branch_states(self, hidden: bool = False) -> Sequence[BranchState]:
        """Return the branches as of one moment; the hidden ones only if asked."""
        return [each for each in self._context.refs.branches.list() if hidden or not each.hidden]

    def prune_branches(self, dry_run: bool = False) -> list[BranchState]:
        """Delete the branches that have expired, and what is staged on them; return them.

        The default branch and protected ones stay. A dry run only tells.
        """
        return prune_branches(self._context, dry_run=dry_run)

    def delete_branch(self, name: str) -> None:
        """Delete a branch and what is staged on it; its commits stay.

        Raises ProtectedError for the default branch.
        """
        refs.delete_branch(self._context, name)

    def create_tag(self, name: str, ref: str) -> TagInfo:
        """Name the commit of a ref for good; raise AlreadyExistsError."""
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
        """Return what was the head of a branch at a moment, which has a time zone.

        Raises RefNotFoundError for a moment before the branch began.
        """
        return head_at(self._context, branch, moment)

    def tree(self, ref: str) -> MetaRange:
        """Return the tree of a ref, as committed: its ranges, none of which is read."""
        return self._context.tree(self.resolve(ref))

    def objects(self, ref: str, prefix: str = "") -> Rows[ObjectInfo]:
        """Return the objects of a ref; a branch's staged changes count.

        `branch@` leaves them out, and `branch$` has what is staged alone. Iterate it, or ask for
        `to_arrow()` or `to_df()`.
        """
        return read.list_objects(self._context, ref, prefix)

    def folder(self, ref: str, prefix: str = "") -> Iterator[ObjectInfo | Folder]:
        """Yield the objects right under a prefix, and each folder there once, in key order.

        What else lies in a folder is not read.
        """
        return folders.list_folder(self._context, ref, prefix)

    def stat(self, ref: str, path: str, to_read: bool = False) -> ObjectInfo:
        """Return one object; raise ObjectNotFoundError.

        One `to_read` raises ExpiredError, too, where its bytes may be gone.
        """
        return (kept_object if to_read else stat_object)(self._context, ref, path)

    def at(self, ref: str) -> Snapshot:
        """Return a ref as it is now, to ask it for objects: `stat`, `exists`, `lookup` of many."""
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
        """Open one object to read it, as it is now: "rb" for bytes, "r" for text.

        Only the parts that are asked for are read; they raise MissingFileError, CorruptFileError.
        """
        text = open_files.TextOptions(encoding, errors, newline)
        return open_files.open_to_read(self._context, ref, path, open_files.Mode.of(mode), text)

    def read(
        self,
        ref: str,
        path: str,
        format: str = "parquet",  # noqa: A002  (Spark's own word)
        timestamp: datetime | None = None,
        **options: Any,
    ) -> DataFrame:
        """Return the table under a path as a DataFrame, partition columns included.

        With a timestamp, as it was on a branch then. `options` go to Spark's reader. Raises
        ObjectNotFoundError.
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
        """Return the URI of a Delta table that shows what is under a path, for readers of Delta.

        It is of Parquet files or of a Delta table, never changes, and is not to be written to.
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
        """Return what differs from left to right, as committed.

        Three-way: what merging right into left would change in left, with its conflicts. Three-dot:
        what right has changed since the merge base of both. Iterate it, or ask for `by_folder()`,
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
        """Return which rows of a table differ from left to right, as committed.

        The format is parquet, orc or delta; `columns` are those to compare, all where none are
        given. Only files that differ are read. Ask for `to_df()`, `counts()` or `schema_changes`.
        """
        refs = left, right
        return diff_table(self._context, refs, path, key, format, columns, options, DELTA_FORMAT)

    def diff_uncommitted(self, branch: str, prefix: str = "") -> Differences:
        """Return what is staged on a branch and would change it."""
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
        """Return the commits that a ref contains, the latest first, each after its descendants.

        Iterate it, or ask for `to_arrow()` or `to_df()`.

        It begins behind the ref `after` and ends with the ref `stop_at`; `since` and `until` are
        dates with a time zone. Only as much history is read as is asked for. With a path or a
        prefix, only commits that changed the object, or one below the prefix.
        """
        options = LogOptions(
            amount=amount,
            after=after,
            since=since,
            until=until,
            stop_at=stop_at,
            first_parent=first_parent,
            no_merges=no_merges,
            path=path,
            prefix=prefix,
        )
        return history.log(self._context, ref, options)

    def graph(self, ref: str, amount: int = 100, first_parent: bool = False) -> HistoryGraph:
        """Return the latest commits of a ref as a picture, which a notebook shows.

        `save(path)` writes it as SVG or PNG. Needs the extra `graph`.
        """
        names = names_of(self.branch_states(), self.tags())
        commits = self.log(ref, amount, first_parent=first_parent)
        return history_graph(commits, names, 1 if first_parent else None)

    def blame(self, ref: str, prefix: str = "") -> Blame:
        """Return for each object under a prefix the commit in which it became what it is.

        Iterate it, or ask for `to_arrow()` or `to_df()`. What is staged is no part of history.
        """
        return blame(self._context, ref, prefix)

    def changes(self, ref: str, prefix: str = "") -> Blame:
        """Return what `blame` does: a row an object, with the commit that last changed it."""
        return self.blame(ref, prefix)

    def show(self, ref: str) -> CommitSummary:
        """Return the commit of a ref, and how many objects differ from its first parent's."""
        return history.show(self._context, ref)

    def merge_base(self, left: str, right: str) -> Commit:
        """Return the best common ancestor of two refs; raise RefNotFoundError for none."""
        one, other = (self.resolve(ref) for ref in (left, right))
        return bases.merge_base(self._context, one, other)

    def merge_bases(self, left: str, right: str) -> list[Commit]:
        """Return all common ancestors of two refs that are no ancestors of another one.

        The first is that of `merge_base`; criss-cross merges make several.
        """
        one, other = (self.resolve(ref) for ref in (left, right))
        return bases.common_ancestors(self._context, one, other)

    def plan_merge(
        self, source: str, dest: str, allow_empty: bool = False, paths: Sequence[str] | None = None
    ) -> Explanation:
        """Return what a merge would read and copy, and where it would run; nothing moves.

        Raises DirtyBranchError and NoChangesError as the merge would.
        """
        options = MergeOptions(allow_empty=allow_empty, paths=paths)
        return merges.explain_merge(self._context, source, dest, options)

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
        """Return what a merge would change in dest, its conflicts and its cost; nothing moves.

        Raises StrategyError, DirtyBranchError and NoChangesError as the merge would: with `squash`
        or `paths`, NoChangesError too where dest would be what it is.
        """
        options = MergeOptions(
            resolution=parse_resolution(strategy, rules, delta),
            squash=squash,
            allow_empty=allow_empty,
            paths=paths,
        )
        return preview.preview_merge(self._context, source, dest, options)

    def operations(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Return the latest moves of refs, newest first; of one branch or tag, or of all.

        Raises InvalidInputError for a limit below 1.
        """
        return list_operations(self._context, limit, ref)

    def hook_runs(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Return what came of the latest hooks, newest first; of one branch or tag, or of all.

        Raises InvalidInputError for a limit below 1.
        """
        return list_hook_runs(self._context, limit, ref)

    def hook_run(self, run_id: str) -> HookRun:
        """Return a run of hooks by its id; raise NotFoundError."""
        return get_hook_run(self._context, run_id)

    def writes(self) -> Sequence[Write]:
        """Return the writes of tables that are open or were abandoned, the oldest first.

        One whose driver died stays open until it is abandoned.
        """
        return list_writes(self._context)

    def abandon_write(self, write_id: str) -> Write:
        """Let an open write stage nothing, ever; raise NotFoundError, WriteEndedError."""
        return abandon_write(self._context, write_id)

    def dump_refs(self) -> RefsDump:
        """Write all branches, tags and commit, as of one moment, into the storage namespace.

        `lake.restore_repository` makes a repository of them, and so can lakeFS. What is staged is
        no part of it. Raises NamespaceInUseError where another repository has taken over.
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
    ) -> ExportResult:
        """Copy the objects of a commit to a folder or bucket, under their paths, with a manifest.

        What is staged is no part of it. With `since`, or `incremental`, which goes on from what the
        last export has left there, only what differs is copied, and what is gone is deleted unless
        `keep_removed`. `overwrite` takes a place that is not empty. Raises UnfitError,
        MissingFileError, CorruptFileError; docs/export.md has the rest.
        """
        options = ExportOptions(
            prefix=prefix,
            since=since,
            incremental=incremental,
            keep_removed=keep_removed,
            overwrite=overwrite,
            manifest_only=manifest_only,
            dry_run=dry_run,
            format=manifest_format,
        )
        return export(self._context, ref, to, options)

    def manifest(
        self,
        ref: str,
        to: str,
        prefix: str = "",
        format: str = "parquet",  # noqa: A002
    ) -> ExportResult:
        """Write what a commit holds as rows to an empty folder; copies no object.

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
        """Delete the bytes of objects for good, whatever commit names them; ids stay valid.

        `paths` are exact, globs, or prefixes that end with '/'. Raises PurgeBlockedError where a
        branch has them, unless it is to `commit` their removal, or where other paths name the same
        bytes, unless `even_shared`. What lies outside of the storage namespace is only listed,
        unless `also_external`. docs/purge.md has the rest.
        """
        options = PurgeOptions(
            patterns=path_tuple(paths, "the paths of a purge"),
            message=message,
            commit=commit,
            even_shared=even_shared,
            also_external=also_external,
            dry_run=dry_run,
        )
        return purge(self._context, options)

    def resume_purge(self, purge_id: str) -> Purge:
        """Carry on a purge that was not finished; raise NotFoundError."""
        return resume_purge(self._context, purge_id)

    def purges(self) -> Sequence[Purge]:
        """Return all purges, newest first."""
        return self._context.refs.purges.list()

    def get_purge(self, purge_id: str) -> Purge:
        """Return a purge by its id; raise NotFoundError."""
        return get_purge(self._context, purge_id)

    def receipt(self, purge_id: str) -> str:
        """Return the folder of a purge's receipt: Parquet files of what was deleted, and when."""
        return receipt_of(self._context, get_purge(self._context, purge_id))

    def collect_garbage(
        self, dry_run: bool = False, sweep: str | None = None, grace: timedelta = GRACE
    ) -> Collection:
        """Delete the objects of the namespace that no kept commit and no staged change names.

        Commits that the retention does not keep expire. What is younger than the time of grace is
        spared. A dry run only tells; what it has listed
        can be swept later by its id. Raises CollectionOpenError while another one is under way.
        """
        return collect_garbage(self._context, dry_run=dry_run, sweep=sweep, grace=grace)

    def garbage(self, run_id: str) -> Rows[ObjectInfo]:
        """Return all that a garbage collection has found, by address; raise NotFoundError."""
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

        `rules` give strategies by globs over paths, and `strategy` is for the rest: a name, a
        `module:function`, or a function as docs/merging.md has it. Without one, keys that both
        sides changed raise MergeConflictError, and nothing moves: `.count` says how many,
        `.conflicts` has the first 10,000. The logs of a Delta table that both sides wrote to become
        one before anything else is asked, unless `delta` is False.

        With `squash`, or of chosen `paths` alone (objects, or prefixes that end with '/'), its only
        parent is dest: the next merge begins from the same base.

        Raises StrategyError where a strategy fails, DirtyBranchError for a dest with staged
        changes, NoChangesError when it has all of source.
        """
        options = MergeOptions(
            resolution=parse_resolution(strategy, rules, delta),
            message=message,
            committer=committer,
            metadata=metadata,
            squash=squash,
            allow_empty=allow_empty,
            paths=paths,
        )
        return merges.merge(self._context, source, dest, options)
