"""A repository: its refs, and the verbs on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from html import escape
from typing import IO, TYPE_CHECKING, Any, Literal, cast, overload

from sparklake._html import html_table
from sparklake.branch import Branch
from sparklake.errors import InvalidInputError, MergeConflictError, RefNotFoundError, SparklakeError
from sparklake.graveler.keys import path_tuple
from sparklake.graveler.ports import BranchState, TagInfo
from sparklake.uri import plain_ref
from sparklake.verbs.base.arguments import GRACE
from sparklake.verbs.base.once import COMMIT, Once, ResultCodec, VerbResult
from sparklake.verbs.base.resolve import get_branch, get_commit
from sparklake.verbs.base.runner import run_verb, runs_verbs, verb

# Lazy imports: a verb is imported where it is called. All of them take 0.5 s.
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from sparklake.engine.explanation import Explanation
    from sparklake.engine.lazy_rows import Rows
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.ports import Operation, RepositoryInfo, Write
    from sparklake.graveler.ports.registers import HookRun, Purge
    from sparklake.graveler.ranges import MetaRange
    from sparklake.rows.diffs import DiffRow, ThreeWayRow
    from sparklake.rows.objects import ObjectInfo
    from sparklake.rows.overlaps import RowOverlap
    from sparklake.strategies.choosing import RulesLike, StrategyLike
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.base.snapshot import Snapshot
    from sparklake.verbs.checks.report import CheckLevel, CheckReport
    from sparklake.verbs.diffs.differences import Differences
    from sparklake.verbs.diffs.texts import TextDiff
    from sparklake.verbs.dumps.dump import RefsDump
    from sparklake.verbs.exports.register import Registration
    from sparklake.verbs.exports.work import ExportResult
    from sparklake.verbs.gc.collect import Collection
    from sparklake.verbs.history.blame import Blame
    from sparklake.verbs.history.graph import HistoryGraph
    from sparklake.verbs.history.log import Log
    from sparklake.verbs.history.show import CommitSummary
    from sparklake.verbs.merges.preview import MergePreview
    from sparklake.verbs.objects.list import Folder
    from sparklake.verbs.refs.settings import LiveSettings
    from sparklake.verbs.repairs.repair import RepairReport
    from sparklake.verbs.repairs.steps import RepairStep
    from sparklake.verbs.tables.row_diff import TableDiff

_BRANCH: ResultCodec[BranchState] = ResultCodec(
    lambda branch: {"name": branch.name, "commit_id": branch.commit_id, "hidden": branch.hidden},
    lambda _, result: BranchState(**result),
)
_TAG: ResultCodec[TagInfo] = ResultCodec(asdict, lambda _, result: TagInfo(**result))


@runs_verbs
class Repository:
    """A storage namespace and the refs over it.

    Unknown refs raise RefNotFoundError. Lazy results are iterated, or computed with `to_arrow()` or
    `to_df()`. Plans, previews and dry runs change nothing.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"Repository(lakefs://{self.name}, {self.info.storage_namespace})"

    def _repr_html_(self) -> str:
        # The lake may be closed.
        with suppress(SparklakeError):
            rows = (
                {
                    "branch": each.name,
                    "commit": each.commit_id[:12],
                    "message": each.head.message if each.head else "",
                    "staged": "yes" if each.layers else "",
                }
                for each in self.branch_states()
            )
            return html_table(repr(self), ("branch", "commit", "message", "staged"), rows)
        return f"<code>{escape(repr(self))}</code>"

    @property
    def name(self) -> str:
        """The name."""
        return self.info.name

    @property
    def info(self) -> RepositoryInfo:
        """The lake's record of the repository."""
        return self._context.info

    @property
    def settings(self) -> LiveSettings:
        """The settings: read-only, protected branches, metadata, retention."""
        from sparklake.verbs.refs.settings import LiveSettings

        return LiveSettings(self._context)

    # --- branches and tags ------------------------------------------------------------------------

    def create_branch(
        self,
        name: str,
        source: str | None = None,
        hidden: bool = False,
        expires: timedelta | None = None,
        exist_ok: bool = False,
        once: str | Once | None = None,
    ) -> Branch:
        """Create a branch at any ref, in constant time. Raises AlreadyExistsError.

        Examples:
            >>> fix = repo.create_branch("fix-prices", source="main")
            >>> fix.head == repo.branch("main").head
            True
        """
        source = self._context.info.default_branch if source is None else source
        run = run_verb(
            self._create_branch, name, source, hidden, expires=expires, exist_ok=exist_ok, once=once
        )
        return VerbResult(
            Branch(self._context, name), run.changed, run.repeated, run.stored
        ).returned()

    @verb("create-branch", _BRANCH)
    def _create_branch(
        self,
        name: str,
        source: str,
        hidden: bool,
        expires: timedelta | None,
        exist_ok: bool,
        once: str | Once | None,
    ) -> BranchState:
        from sparklake.verbs.refs.branches import create_branch

        return create_branch(
            self._context, name, source, hidden=hidden, expires=expires, exist_ok=exist_ok
        ).returned()

    def branch(self, name: str) -> Branch:
        """Return a branch. Raises RefNotFoundError."""
        return Branch(self._context, get_branch(self._context, name).name)

    def branches(self, hidden: bool = False) -> list[Branch]:
        """Return the branches in the byte order of their names; hidden ones only on request."""
        return [Branch(self._context, each.name) for each in self.branch_states(hidden)]

    def branch_states(self, hidden: bool = False) -> Sequence[BranchState]:
        """Return a consistent snapshot of all branches; hidden ones only on request."""
        return [each for each in self._context.refs.branches.list() if hidden or not each.hidden]

    def prune_branches(self, dry_run: bool = False) -> list[BranchState]:
        """Delete expired branches, except protected ones; return them."""
        from sparklake.verbs.refs.branches import prune_branches

        return prune_branches(self._context, dry_run=dry_run)

    def rename_branch(self, name: str, new_name: str, once: str | Once | None = None) -> Branch:
        """Rename a branch, with its staged changes, expiry, protection and retention.

        Hooks see the deletion of the old name and the creation of the new one. Raises
        AlreadyExistsError, and ProtectedError for the default branch or one protected against
        deletion.
        """
        run = run_verb(self._rename_branch, name, new_name, once=once)
        return VerbResult(
            Branch(self._context, new_name), run.changed, run.repeated, run.stored
        ).returned()

    @verb("rename-branch", _BRANCH)
    def _rename_branch(self, name: str, new_name: str, once: str | Once | None) -> BranchState:
        from sparklake.verbs.refs.branches import rename_branch

        return rename_branch(self._context, name, new_name)

    def delete_branch(
        self, name: str, missing_ok: bool = False, discard_staged: bool = False
    ) -> None:
        """Delete a branch; its commits stay. Raises ProtectedError, DirtyBranchError."""
        from sparklake.verbs.refs.branches import delete_branch

        try:
            delete_branch(self._context, name, discard_staged=discard_staged)
        except RefNotFoundError:
            if not missing_ok:
                raise

    @verb("create-tag", _TAG)
    def create_tag(
        self,
        name: str,
        ref: str,
        exist_ok: bool = False,
        once: str | Once | None = None,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> TagInfo:
        """Create a tag at any ref; it never moves. Raises AlreadyExistsError.

        Examples:
            >>> repo.create_tag("v3", "main", metadata={"model": "churn-7"}).name
            'v3'
        """
        from sparklake.verbs.refs.branches import create_tag

        tag = create_tag(
            self._context, name, ref, message=message, metadata=metadata, exist_ok=exist_ok
        )
        return tag.returned()

    def tags(self) -> list[TagInfo]:
        """Return all tags in the byte order of their names."""
        return list(self._context.refs.tags.list())

    def delete_tag(self, name: str) -> None:
        """Delete a tag. Raises RefNotFoundError."""
        from sparklake.verbs.refs.branches import delete_tag

        delete_tag(self._context, name)

    def _plain(self, ref: str) -> str:
        return plain_ref(self.name, ref)

    def resolve(self, ref: str) -> Commit:
        """Return the commit of a ref."""
        return get_commit(self._context, ref)

    def at_time(self, branch: str, timestamp: datetime) -> Commit:
        """Return the branch head at a given time. Raises RefNotFoundError before its creation."""
        from sparklake.verbs.refs.moves import head_at

        return head_at(self._context, branch, timestamp)

    # --- objects and tables -----------------------------------------------------------------------

    def tree(self, ref: str) -> MetaRange:
        """Return the tree of a ref, as committed: its ranges, without reading them."""
        return self._context.tree(self.resolve(ref))

    def objects(self, ref: str, prefix: str = "") -> Rows[ObjectInfo]:
        """Return the objects of a ref, including a branch's staged changes.

        `branch@` excludes these, `branch$` has only these.

        Examples:
            >>> [each.path for each in repo.objects("main", "raw/")]
            ['raw/customers.csv', 'raw/orders.csv']
        """
        from sparklake.verbs.base.read import list_objects

        return list_objects(self._context, ref, prefix)

    def folder(self, ref: str, prefix: str = "") -> Iterator[ObjectInfo | Folder]:
        """Yield the objects and folders directly under a prefix, without reading deeper levels."""
        from sparklake.verbs.objects.list import list_folder

        return list_folder(self._context, ref, prefix)

    def stat(self, ref: str, path: str, require_readable: bool = False) -> ObjectInfo:
        """Return one object. Raises ObjectNotFoundError, and if required, ExpiredError.

        Examples:
            >>> repo.stat("v1", "raw/orders.csv").size
            19
        """
        from sparklake.verbs.base.snapshot import kept_object, stat_object

        find = kept_object if require_readable else stat_object
        return find(self._context, ref, path)

    def at(self, ref: str) -> Snapshot:
        """Return a snapshot of a ref for `stat`, `exists`, and `lookup` of many paths.

        Examples:
            >>> repo.at("main").exists("raw/orders.csv")
            True
        """
        from sparklake.verbs.base.snapshot import open_snapshot

        return open_snapshot(self._context, ref)

    def read_bytes(self, ref: str, path: str) -> bytes:
        r"""Return the content of one object. Raises MissingFileError, CorruptFileError.

        Examples:
            >>> repo.read_bytes("main~1", "notes/a.txt")
            b'first\n'
        """
        from sparklake.verbs.base.read import read_object

        return read_object(self._context, ref, path)

    def url(self, ref: str, path: str, expires: timedelta = timedelta(hours=1)) -> str:
        """Return a presigned URL: anyone who has it may read the object until it expires.

        Objects of a branch that are later deleted or purged can no longer be read. The URL expires
        earlier if the credentials do.

        Raises:
            InvalidInputError: The object is a local file, or `expires` is more than 7 days.
            MissingFileError: The object was moved or deleted outside the lake.
        """
        from sparklake.verbs.base.read import object_url

        return object_url(self._context, ref, path, expires)

    def open(
        self,
        ref: str,
        path: str,
        mode: str = "rb",
        encoding: str = "utf-8",
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open one object for reading, in its current state, in requested parts."""
        from sparklake.verbs.objects.open_files import FileMode, TextOptions, open_to_read

        text = TextOptions(encoding, errors, newline)
        return open_to_read(self._context, ref, path, FileMode.of(mode), text)

    def read(
        self,
        ref: str,
        path: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        timestamp: datetime | None = None,
        **options: Any,
    ) -> DataFrame:
        """Return the table under a path, or one file, as a DataFrame with partition columns.

        `lake.read` has the shape of Spark's reader, schemas and several paths.
        """
        from sparklake.verbs.tables.read import read_table
        from sparklake.verbs.tables.version import open_table

        ref = ref if timestamp is None else self.at_time(ref, timestamp).id
        return read_table(self._context, open_table(self._context, ref, path), format, options)

    def view(
        self,
        ref: str,
        path: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        **options: Any,
    ) -> str:
        """Return the URI of an immutable Delta table over the files under a path."""
        from sparklake.verbs.tables.read import view_table
        from sparklake.verbs.tables.version import open_table

        return view_table(self._context, open_table(self._context, ref, path), format, options)

    def iceberg_metadata(self, ref: str, path: str) -> str:
        """Return the address of an Iceberg table's current metadata, for readers such as pyiceberg.

        Raises:
            InvalidInputError: The paths in the metadata are not the addresses of the files.
        """
        from sparklake.verbs.iceberg.read import metadata_address

        return metadata_address(self._context, ref, path)

    # --- differences ------------------------------------------------------------------------------

    @overload
    def diff(
        self,
        left: str,
        right: str,
        prefix: str = "",
        three_way: Literal[False] = False,
        three_dot: bool = False,
    ) -> Differences[DiffRow]: ...

    @overload
    def diff(
        self,
        left: str,
        right: str,
        prefix: str = "",
        *,
        three_way: Literal[True],
        three_dot: bool = False,
    ) -> Differences[ThreeWayRow]: ...

    @overload
    def diff(
        self,
        left: str,
        right: str,
        prefix: str = "",
        three_way: bool = False,
        three_dot: bool = False,
    ) -> Differences[DiffRow] | Differences[ThreeWayRow]: ...

    def diff(
        self,
        left: str,
        right: str,
        prefix: str = "",
        three_way: bool = False,
        three_dot: bool = False,
    ) -> Differences[DiffRow] | Differences[ThreeWayRow]:
        """Return the differences from left to right, as committed.

        Three-way: the changes in left if right were merged into it, with conflicts; its rows have
        the sides base, source (right) and dest (left). Three-dot: the changes of right since the
        merge base. Both at once raise InvalidInputError.

        Examples:
            >>> [(each.type.value, each.path) for each in repo.diff("main", "dev", "raw/")]
            [('added', 'raw/more/a.csv')]
        """
        from sparklake.verbs.diffs.differences import diff_refs
        from sparklake.verbs.merges.preview import diff_three_way

        if three_way and three_dot:
            raise InvalidInputError("choose one of a three-way and a three-dot diff")
        if three_way:
            return diff_three_way(self._context, left, right, prefix)
        return diff_refs(self._context, left, right, prefix, three_dot=three_dot)

    def diff_texts(
        self,
        left: str,
        right: str | None = None,
        prefix: str = "",
        three_dot: bool = False,
        three_way: bool = False,
    ) -> Iterator[TextDiff]:
        """Yield the differences of `diff`, with the changed lines of text objects.

        Without a right ref, they are a branch's staged changes. A conflict of a three-way diff has
        the lines that left and right changed since the merge base. Objects above 1 MiB or 20,000
        lines, and binary objects, have a reason instead.

        Examples:
            >>> [each.lines[-2:] for each in repo.diff_texts("main", "dev", "config/")]
            [('-{"tax": 19}', '+{"tax": 20}')]
        """
        from sparklake.verbs.diffs.texts import diff_texts, three_way_texts

        if not three_way:
            return diff_texts(self._context, left, right, prefix, three_dot=three_dot)
        if right is None:
            raise InvalidInputError("a three-way diff compares two refs: add the second one")
        rows = self.diff(left, right, prefix, three_way=True, three_dot=three_dot)
        return three_way_texts(self._context, rows, left, right)

    def diff_table(
        self,
        left: str,
        right: str,
        path: str,
        key: Sequence[str],
        format: str | None = None,  # noqa: A002  (Spark's own word)
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> TableDiff:
        """Return the differing rows of a parquet, orc or delta table, as committed."""
        from sparklake.verbs.tables.row_diff import diff_table

        return diff_table(
            self._context,
            refs=(left, right),
            path=path,
            key=key,
            table_format=format,
            columns=columns,
            options=options,
        )

    def diff_uncommitted(self, branch: str, prefix: str = "") -> Differences[DiffRow]:
        """Return the effective staged changes of a branch."""
        from sparklake.verbs.diffs.differences import diff_uncommitted

        return diff_uncommitted(self._context, branch, prefix)

    # --- history ----------------------------------------------------------------------------------

    def log(
        self,
        ref: str,
        limit: int | None = None,
        after: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        stop_at: str | None = None,
        first_parent: bool = False,
        no_merges: bool = False,
        path: str | None = None,
        prefix: str | None = None,
        author: str | None = None,
        grep: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Log:
        """Return the commits of a ref, newest first, each after its descendants.

        Only the required part of history is read. With a path or a prefix, it contains only changes
        of the object, or below the prefix. `author` and `grep` are regular expressions for the
        committer and the message, without regard to case. None in `metadata` is any value.

        Examples:
            >>> [commit.message for commit in repo.log("main", limit=2)]
            ['load more orders', 'load the first orders']
        """
        from sparklake.verbs.history.log import LogOptions, log

        options = LogOptions(
            limit=limit,
            after=after,
            since=since,
            until=until,
            stop_at=stop_at,
            first_parent=first_parent,
            no_merges=no_merges,
            path=path,
            prefix=prefix,
            author=author,
            grep=grep,
            metadata=metadata,
        )
        return log(self._context, ref, options)

    def blame(self, ref: str, prefix: str = "") -> Blame:
        """Return the last change of each object under a prefix, without staged changes."""
        from sparklake.verbs.history.blame import blame

        return blame(self._context, ref, prefix)

    def changes(self, ref: str, prefix: str = "") -> Blame:
        """Return the result of `blame`, one row per object."""
        return self.blame(ref, prefix)

    def show(self, ref: str) -> CommitSummary:
        """Return the commit of a ref, and the number of its changes against its first parent."""
        from sparklake.verbs.history.show import show

        return show(self._context, ref)

    def merge_base(self, left: str, right: str) -> Commit:
        """Return the best common ancestor of two refs. Raises RefNotFoundError."""
        from sparklake.verbs.base.merge_bases import merge_base

        return merge_base(self._context, self.resolve(left), self.resolve(right))

    def merge_bases(self, left: str, right: str) -> list[Commit]:
        """Return all best common ancestors of two refs, starting with that of `merge_base`."""
        from sparklake.verbs.base.merge_bases import common_ancestors

        return common_ancestors(self._context, self.resolve(left), self.resolve(right))

    def graph(self, ref: str, limit: int = 100, first_parent: bool = False) -> HistoryGraph:
        """Return the latest commits of a ref as a picture."""
        from sparklake.verbs.history.graph import history_graph, names_of

        names = names_of(self.branch_states(), self.tags())
        commits = self.log(ref, limit, first_parent=first_parent)
        return history_graph(commits, names, 1 if first_parent else None)

    # --- merges -----------------------------------------------------------------------------------

    def plan_merge(
        self, source: str, dest: str, allow_empty: bool = False, paths: Sequence[str] | None = None
    ) -> Explanation:
        """Return the reads, copies and engine of a merge, or raise NoChangesError."""
        from sparklake.verbs.merges.merge import MergeOptions, explain_merge

        options = MergeOptions(allow_empty=allow_empty, paths=paths)
        return explain_merge(self._context, self._plain(source), self._plain(dest), options)

    def preview_merge(
        self,
        source: str,
        dest: str,
        strategy: StrategyLike = None,
        allow_empty: bool = False,
        paths: Sequence[str] | None = None,
        rules: RulesLike = None,
        unite_tables: bool = True,
        schema_check: bool = True,
        squash: bool = False,
    ) -> MergePreview:
        """Return the changes, conflicts and cost of a merge.

        Staged changes of dest are not compared: `dirty` reports that a merge may be rejected for
        them. Raises StrategyError and NoChangesError as the merge would.

        Examples:
            >>> preview = repo.preview_merge("dev", "main")
            >>> preview.added, preview.changed, preview.conflict_count
            (1, 2, 0)
        """
        from sparklake.strategies.choosing import parse_resolution
        from sparklake.verbs.merges.merge import MergeOptions
        from sparklake.verbs.merges.preview import preview_merge

        options = MergeOptions(
            resolution=parse_resolution(strategy, rules, unite_tables, schema_check),
            squash=squash,
            allow_empty=allow_empty,
            paths=paths,
        )
        return preview_merge(self._context, self._plain(source), self._plain(dest), options)

    def merge_conflicts(
        self, source: str, dest: str, path: str, strategy: StrategyLike = "rows()"
    ) -> DataFrame:
        """Return the rows of a table that a merge of rows leaves in conflict.

        The columns are `key` (a struct), `column` (null for a whole row), and `base`, `source` and
        `dest` as JSON. Only files that changed since the merge base are read, when the DataFrame
        is. Nothing is merged.

        Raises:
            InvalidInputError: The table has no such key, or its settings cannot be merged.
        """
        from sparklake.strategies.choosing import parse_strategy
        from sparklake.strategies.row_strategy import Rows
        from sparklake.verbs.merges.preview import merge_conflicts

        parsed = parse_strategy(strategy)
        if not isinstance(parsed, Rows):
            raise InvalidInputError(
                f"{strategy!r} is not a strategy for rows, such as rows(order_id)"
            )
        return merge_conflicts(self._context, self._plain(source), self._plain(dest), path, parsed)

    @verb("merge", COMMIT, head=lambda repo, arguments: repo.branch(arguments["dest"]).head)
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
        unite_tables: bool = True,
        schema_check: bool = True,
        expect_source: str | None = None,
        expect_dest: str | None = None,
        if_needed: bool = False,
        once: str | Once | None = None,
    ) -> Commit:
        """Merge a ref into a branch as a commit with parents [dest, source].

        With `squash`, or selected `paths`, its only parent is dest: the next merge uses the same
        base. `rules` come before `strategy`; docs/merging.md describes functions. Unresolved keys
        raise MergeConflictError: `.count` is their number, `.conflicts` has the first 10,000.
        `schema_check` reports Parquet tables with added files of other types as conflicts. Unless
        the refs are at the commits `expect_source` and `expect_dest`, such as those of a preview,
        UnexpectedHeadError is raised. Also raises StrategyError, DirtyBranchError for staged
        changes of dest to merged objects, and NoChangesError. No error changes anything.

        Examples:
            >>> commit = repo.merge("dev", "main", message="publish the new prices")
            >>> len(commit.parents)
            2
        """
        from sparklake.strategies.choosing import parse_resolution
        from sparklake.verbs.merges.merge import MergeOptions, merge

        options = MergeOptions(
            resolution=parse_resolution(strategy, rules, unite_tables, schema_check),
            message=message,
            committer=committer,
            metadata=metadata,
            squash=squash,
            allow_empty=allow_empty,
            paths=paths,
            expect_source=expect_source,
            expect_dest=expect_dest,
        )
        return merge(self._context, self._plain(source), self._plain(dest), options)

    def overlapping_rows(
        self, error: MergeConflictError, limit: int = 100
    ) -> list[Mapping[str, Any]]:
        """Return the first rows of tables that both sides of a merge deleted or updated.

        Each has `table`, `path` and `position` in the file, and the `row` as it was before both
        changes, with the file's column names and without partition columns. Only the row groups
        of these rows are read.

        Raises:
            CorruptFileError: A file is not Parquet.
            MissingFileError: A file was deleted outside the lake.
        """
        from sparklake.verbs.merges.overlaps import overlapping_rows

        overlaps = cast("list[RowOverlap]", error.overlaps)
        return list(overlapping_rows(overlaps, limit))

    # --- registers --------------------------------------------------------------------------------

    def operations(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Return the latest ref moves, newest first, optionally of one branch or tag."""
        from sparklake.verbs.refs.moves import list_operations

        return list_operations(self._context, limit, ref)

    def hook_runs(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Return the latest hook runs, newest first, optionally of one branch or tag."""
        from sparklake.verbs.hooks.guard import list_hook_runs

        return list_hook_runs(self._context, limit, ref)

    def hook_run(self, run_id: str) -> HookRun:
        """Return a hook run by its id. Raises NotFoundError."""
        from sparklake.verbs.hooks.guard import get_hook_run

        return get_hook_run(self._context, run_id)

    def writes(self) -> Sequence[Write]:
        """Return the open and abandoned table writes, oldest first."""
        return self._context.refs.writes.list()

    def abandon_write(self, write_id: str) -> Write:
        """Abandon an open write: it can never stage its files. Raises WriteFinishedError."""
        from sparklake.verbs.tables.written import abandon_write

        return abandon_write(self._context, write_id)

    # --- dumps, exports, purges, garbage and checks -----------------------------------------------

    def dump_refs(self, overwrite: bool = False, check_addresses: bool = True) -> RefsDump:
        """Write a snapshot of all branches, tags and commits into the storage namespace.

        `lake.restore_repository` and lakeFS can restore them, without staged changes. Unless
        `overwrite`, raises NewerDumpError after another program's dump, and RefsLostError for a
        dump with refs or commits missing here.
        """
        from sparklake.verbs.dumps.dump import DumpOptions, dump_refs

        return dump_refs(self._context, DumpOptions(overwrite, check_addresses))

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
        """Copy the objects of a commit to a folder or bucket, with a manifest.

        An incremental export copies the differences, and deletes removed objects unless
        `keep_removed`. See docs/export.md.
        """
        from sparklake.verbs.exports.export import export
        from sparklake.verbs.exports.work import ExportOptions

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
        """Write a manifest of a commit's objects to an empty folder, without copying them."""
        return self.export(ref, to, prefix, manifest_only=True, manifest_format=format)

    def register(
        self, ref: str, path: str, exported: str, table: str, run: bool = False
    ) -> Registration:
        """Prepare an exported Iceberg table for a catalog of the Spark session, or `run` it.

        Writes metadata with the paths of the export beside the exported files. The statement calls
        the catalog's `register_table` for `table`, such as `glue.sales.orders`. From then on, the
        table belongs to the catalog, and the lake does not see its changes.

        Raises:
            InvalidInputError: The destination has no finished export of the commit, or the table
                has position deletes in another format than Parquet.
        """
        from sparklake.verbs.exports.register import register

        return register(self._context, ref, path, exported, table, run=run)

    def purge(
        self,
        paths: Sequence[str],
        message: str = "",
        commit: bool = False,
        include_shared: bool = False,
        include_external: bool = False,
        dry_run: bool = False,
    ) -> Purge:
        """Delete the bytes of objects from all of history; ids stay valid.

        Paths in a branch raise PurgeBlockedError unless `commit` commits their removal, as do
        shared bytes unless `include_shared`. See docs/purge.md.
        """
        from sparklake.verbs.purges.purge import PurgeOptions, purge

        options = PurgeOptions(
            patterns=path_tuple(paths, "the paths of a purge"),
            message=message,
            commit=commit,
            include_shared=include_shared,
            include_external=include_external,
            dry_run=dry_run,
        )
        return purge(self._context, options)

    def resume_purge(self, purge_id: str) -> Purge:
        """Resume an unfinished purge. Raises NotFoundError."""
        from sparklake.verbs.purges.purge import resume_purge

        return resume_purge(self._context, purge_id)

    def purges(self) -> Sequence[Purge]:
        """Return all purges, newest first."""
        return self._context.refs.purges.list()

    def get_purge(self, purge_id: str) -> Purge:
        """Return a purge by its id. Raises NotFoundError."""
        from sparklake.verbs.purges.purge import get_purge

        return get_purge(self._context, purge_id)

    def receipt(self, purge_id: str) -> str:
        """Return the folder with the Parquet files of a purge's receipt."""
        from sparklake.verbs.purges.purge import get_purge, receipt_of

        return receipt_of(self._context, get_purge(self._context, purge_id))

    def collect_garbage(
        self,
        dry_run: bool = False,
        sweep: str | None = None,
        grace: timedelta = GRACE,
        work: str | None = None,
    ) -> Collection:
        """Delete unreferenced objects, and expire commits. Raises CollectionRunningError."""
        from sparklake.verbs.gc.collect import collect_garbage

        return collect_garbage(self._context, dry_run=dry_run, sweep=sweep, grace=grace, lists=work)

    def garbage(self, run_id: str) -> Rows[ObjectInfo]:
        """Return all garbage found by a collection, by address. Raises NotFoundError."""
        from sparklake.verbs.gc.collect import garbage_rows

        return garbage_rows(self._context, run_id)

    def check(
        self,
        level: CheckLevel | str = "objects",
        sample: float = 1.0,
        resume: str | None = None,
        to: str | None = None,
        grace: timedelta = GRACE,
    ) -> CheckReport:
        """Verify the repository. See docs/check-and-repair.md."""
        from sparklake.verbs.checks.check import check
        from sparklake.verbs.checks.report import CheckOptions, parse_level

        options = CheckOptions(parse_level(level), sample, grace, resume, to)
        return check(self._context, options)

    def repair(
        self,
        level: CheckLevel | str = "objects",
        sources: Sequence[str] = (),
        dry_run: bool = False,
        accept: Callable[[RepairStep], bool] | None = None,
    ) -> RepairReport:
        """Restore lost or damaged files, as found by a check at the given level.

        They come from the local cache, copies of the namespace in `sources`, and equal records and
        objects in history; refs come from the dump. Ids and checksums prove each result, and
        replaced files are kept. See docs/check-and-repair.md.
        """
        from sparklake.verbs.checks.report import parse_level
        from sparklake.verbs.repairs.repair import RepairOptions, repair

        copies = path_tuple(sources, "the sources of a repair")
        options = RepairOptions(parse_level(level), copies, dry_run, accept or (lambda _: True))
        return repair(self._context, options)
