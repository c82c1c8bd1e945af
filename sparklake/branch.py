"""A branch: the only thing in a repository that changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sparklake._lightness import lazy_module
from sparklake.argument_types import checks_arguments
from sparklake.branch_objects import BranchObjects
from sparklake.verbs.base.if_needed import IfNeeded, if_head_needs
from sparklake.verbs.base.once import COMMIT, COMMITS, NOTHING, Once, runs_once
from sparklake.verbs.base.periods import KEPT_FOR
from sparklake.verbs.base.resolve import get_branch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.engine.explanation import Explanation
    from sparklake.graveler import keys
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.planning import path_filter
    from sparklake.graveler.ports import BranchState
    from sparklake.strategies import choosing
    from sparklake.strategies.choosing import RulesLike, StrategyLike
    from sparklake.udfs.diffs.two_way import DiffRow
    from sparklake.verbs import commits
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.delta import write as delta_writes
    from sparklake.verbs.diffs import diff as diffs
    from sparklake.verbs.diffs.differences import Differences
    from sparklake.verbs.history import status as statuses
    from sparklake.verbs.history.status import BranchStatus
    from sparklake.verbs.imports import import_objects as imports
    from sparklake.verbs.imports.import_objects import ImportReport
    from sparklake.verbs.imports.sources import ImportSource
    from sparklake.verbs.merges import merge as merges
    from sparklake.verbs.merges import rebase as rebases
    from sparklake.verbs.merges import replay
    from sparklake.verbs.merges import transaction as transactions
    from sparklake.verbs.objects import restore as restoring
    from sparklake.verbs.objects.restore import Restored
    from sparklake.verbs.refs import branches, moves
    from sparklake.verbs.tables import write as writes
    from sparklake.verbs.tables import write_request as requests
    from sparklake.verbs.tables.write_request import TableWrite
else:
    # Lazy imports: a verb is imported when it is called. All of them take 0.5 s.
    keys = lazy_module("sparklake.graveler.keys")
    path_filter = lazy_module("sparklake.graveler.planning.path_filter")
    choosing = lazy_module("sparklake.strategies.choosing")
    commits = lazy_module("sparklake.verbs.commits")
    diffs = lazy_module("sparklake.verbs.diffs.diff")
    delta_writes = lazy_module("sparklake.verbs.delta.write")
    statuses = lazy_module("sparklake.verbs.history.status")
    imports = lazy_module("sparklake.verbs.imports.import_objects")
    merges = lazy_module("sparklake.verbs.merges.merge")
    rebases = lazy_module("sparklake.verbs.merges.rebase")
    replay = lazy_module("sparklake.verbs.merges.replay")
    transactions = lazy_module("sparklake.verbs.merges.transaction")
    restoring = lazy_module("sparklake.verbs.objects.restore")
    branches = lazy_module("sparklake.verbs.refs.branches")
    moves = lazy_module("sparklake.verbs.refs.moves")
    writes = lazy_module("sparklake.verbs.tables.write")
    requests = lazy_module("sparklake.verbs.tables.write_request")


@checks_arguments
class Branch(BranchObjects):
    """A branch of a repository. Changes are staged until they are committed."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self.name = name

    def __repr__(self) -> str:
        return f"Branch(lakefs://{self._context.info.name}/{self.name})"

    @property
    def state(self) -> BranchState:
        """The head and the staged changes at one moment; raises RefNotFoundError."""
        return get_branch(self._context, self.name)

    @property
    def head(self) -> Commit:
        """The latest commit; raises RefNotFoundError if the branch no longer exists."""
        return self._context.graph.commit(self.state.commit_id)

    @property
    def is_dirty(self) -> bool:
        """Whether there are staged changes."""
        return bool(self.state.layers)

    @runs_once("write", lambda: requests.RESULT)
    def write(
        self,
        rows: DataFrame,
        path: str,
        format: str = "parquet",  # noqa: A002  (Spark's own word)
        mode: str = "errorifexists",
        partition_by: Sequence[str] = (),
        once: str | Once | None = None,
        schema_check: bool = True,
        **options: Any,
    ) -> TableWrite:
        """Write a DataFrame with Spark's own writers and stage its files.

        `mode` is append, overwrite, overwrite-partitions (replaces only the partitions of the
        rows), errorifexists or ignore; `options` go to Spark's writer. Rows added to Parquet files
        need their columns (or `mergeSchema`) and types, unless `schema_check` is False.
        """
        given = rows, self.name, path, format, mode, partition_by, options, schema_check
        request = requests.write_request(*given)
        if request.is_delta:
            return delta_writes.write_delta(self._context, rows, request)
        return writes.write_table(self._context, rows, request)

    @contextmanager
    def edit_delta(self, path: str, once: str | Once | None = None) -> Iterator[str]:
        """Yield a URI for MERGE, UPDATE, DELETE and OPTIMIZE of a Delta table.

        At the end, all commits there are staged, or nothing if the body raises. If an edit with the
        key `once` was staged before, nothing is staged: the body can skip its work if a `Once` is
        `repeated`. Raises TableMovedError if others have committed to the table meanwhile.
        """
        key = None if once is None else Once.of(once)
        with delta_writes.edit_delta_once(self._context, self.name, path, key) as location:
            yield location

    def status(self, against: str | None = None) -> BranchStatus:
        """Return the head, the number of staged changes, and the commits ahead and behind.

        They are counted against a ref, by default the default branch.
        """
        return statuses.status(self._context, self.name, against)

    def diff(self, prefix: str = "") -> Differences[DiffRow]:
        """Return the staged changes that would change the branch."""
        return diffs.diff_uncommitted(self._context, self.name, prefix)

    def plan(self, paths: Sequence[str] | None = None) -> Explanation:
        """Return what a commit would read and copy, and where; nothing changes."""
        return commits.explain_commit(self._context, self.name, path_filter.filter_for(paths))

    @runs_once("commit", COMMIT)
    def commit(
        self,
        message: str,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        paths: Sequence[str] | None = None,
        if_needed: bool | IfNeeded = False,
        once: str | Once | None = None,
    ) -> Commit:
        """Commit the staged changes; writers may continue meanwhile.

        With `paths` (objects, or prefixes that end with '/'), only their changes; the rest stays
        staged. Raises NoChangesError, ChangesTakenError, RaceLostError.

        Examples:
            >>> _ = branch.put("notes/b.txt", b"second")
            >>> branch.commit("add a note", metadata={"ticket": "1234"}).message
            'add a note'
        """
        options = commits.CommitOptions(
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
            path_filter=path_filter.filter_for(paths),
        )
        return if_head_needs(
            if_needed,
            self._context,
            self.name,
            lambda: commits.commit(self._context, self.name, options),
        )

    @runs_once("import", lambda: imports.RESULT)
    def import_objects(
        self,
        source: ImportSource,
        prefix: str = "",
        message: str | None = None,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        mode: str = "replace",
        on_error: str = "abort",
        errors_to: str | None = None,
        if_needed: bool | IfNeeded = False,
        once: str | Once | None = None,
    ) -> ImportReport:
        """Commit existing objects without copying them: the `commit` of the report.

        `source` is a directory or bucket prefix, an S3Inventory, or rows, as a Spark DataFrame or
        in Arrow: `path`, `size`, `address`, a full URI, and optionally `checksum`, `mtime`,
        `metadata`, `content_type`. The mode `replace` removes the branch's objects under `prefix`,
        `add` keeps them. Rows that cannot be imported raise ImportErrorsError, or are skipped with
        `on_error="skip"`; `errors_to` is an empty place for a table of them. Raises
        DirtyBranchError, NoChangesError, InvalidInputError, StoreUnreachableError.
        """
        options = imports.ImportOptions(
            prefix=prefix,
            message=message,
            committer=committer,
            metadata=metadata,
            mode=mode,
            on_error=on_error,
            errors_to=errors_to,
            if_needed=if_needed,
        )
        return imports.import_objects(self._context, self.name, source, options)

    @runs_once("revert", COMMITS)
    def revert(
        self,
        *refs: str,
        parent_number: int | None = None,
        strategy: StrategyLike = None,
        rules: RulesLike = None,
        message: str | None = None,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        delta: bool = True,
        schema_check: bool = True,
        if_needed: bool | IfNeeded = False,
        once: str | Once | None = None,
    ) -> list[Commit]:
        """Undo commits, with one new commit for each; all of them, or none.

        A merge is compared with one of its parents: `parent_number`, starting at 1. Raises
        MergeConflictError if their changes were changed again, and the errors of a merge; conflicts
        are also decided as in a merge.

        Examples:
            >>> [commit] = main.revert("main")
            >>> repo.read_bytes("main", "raw/orders.csv") == repo.read_bytes("v1", "raw/orders.csv")
            True
        """
        options = replay.ReplayOptions(
            parent_number=parent_number,
            resolution=choosing.parse_resolution(strategy, rules, delta, schema_check),
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
            if_needed=if_needed,
        )
        return replay.revert(self._context, self.name, refs, options)

    @runs_once("cherry-pick", COMMITS)
    def cherry_pick(
        self,
        *refs: str,
        parent_number: int | None = None,
        strategy: StrategyLike = None,
        rules: RulesLike = None,
        message: str | None = None,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        delta: bool = True,
        schema_check: bool = True,
        if_needed: bool | IfNeeded = False,
        once: str | Once | None = None,
    ) -> list[Commit]:
        """Apply commits to the branch, with one new commit for each; all of them, or none.

        Messages and metadata are kept unless new ones are given, and the metadata names the
        original commit and its committer. Takes the arguments and raises the errors of `revert`.
        """
        options = replay.ReplayOptions(
            parent_number=parent_number,
            resolution=choosing.parse_resolution(strategy, rules, delta, schema_check),
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
            if_needed=if_needed,
        )
        return replay.cherry_pick(self._context, self.name, refs, options)

    @runs_once("rebase", COMMITS)
    def rebase(
        self,
        onto: str,
        strategy: StrategyLike = None,
        rules: RulesLike = None,
        delta: bool = True,
        schema_check: bool = True,
        once: str | Once | None = None,
    ) -> list[Commit]:
        """Replay the branch's own commits onto a ref; return the new commits.

        Each keeps message, committer and metadata, which names its original. A commit that becomes
        empty is left out, and so is a merge of commits that `onto` contains; another merge becomes
        one commit. Raises the errors of `cherry_pick`, and NoChangesError if the branch is already
        there.
        """
        resolution = choosing.parse_resolution(strategy, rules, delta, schema_check)
        return rebases.rebase(self._context, self.name, onto, resolution)

    @runs_once("reset", NOTHING)
    def reset(
        self,
        prefix: str | None = None,
        path: str | None = None,
        once: str | Once | None = None,
    ) -> None:
        """Drop the staged changes: all of them, or those under a prefix, or of one object."""
        commits.reset(self._context, self.name, prefix, path)

    @runs_once("restore", lambda: restoring.RESULT)
    def restore(
        self,
        ref: str,
        paths: Sequence[str],
        once: str | Once | None = None,
    ) -> Restored:
        """Restore paths from any ref (staged, not committed).

        A path is that of an object, or a prefix that ends with '/'. Staged changes of these paths
        are replaced, and removals are included. Raises ObjectNotFoundError, NoChangesError,
        RaceLostError.
        """
        chosen = keys.path_tuple(paths, path_filter.PATHS_NOUN)
        return restoring.restore(self._context, self.name, ref, chosen)

    @runs_once("hard-reset", COMMIT)
    def hard_reset(
        self,
        ref: str,
        expected: str | None = None,
        force: bool = False,
        once: str | Once | None = None,
    ) -> Commit:
        """Move the branch to any ref; return its commit. Its former commits stay, by id.

        Raises UnexpectedHeadError if its head is not the commit of `expected`, and DirtyBranchError
        for staged changes, which `force` drops.

        Examples:
            >>> main.hard_reset("v1", expected="v2.3").message
            'load the first orders'
        """
        return moves.hard_reset(self._context, self.name, ref, expected, force=force)

    @runs_once("undo", COMMIT)
    def undo(self, once: str | Once | None = None) -> Commit:
        """Undo the latest move of the branch; a second undo repeats it.

        Staged changes that a commit included stay in that commit, which stays by id. Raises
        NothingToDoError, DirtyBranchError, RaceLostError.
        """
        return moves.undo(self._context, self.name)

    def set_expiry(self, expires: timedelta | None) -> BranchState:
        """Let the branch expire after a time from now, or never.

        Raises ProtectedError for the default branch.
        """
        return branches.set_expiry(self._context, self.name, expires)

    @contextmanager
    def transaction(
        self,
        message: str,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        strategy: StrategyLike = None,
        expires: timedelta = KEPT_FOR,
        rules: RulesLike = None,
    ) -> Iterator[Branch]:
        """Yield a hidden branch to work on, which is merged into this one at the end.

        Others see all of the work, or none. If the body raises, its exception passes through, with
        a note that names the branch with the work. Raises TransactionError if the work cannot be
        merged, and DirtyBranchError for staged changes on this branch.

        Examples:
            >>> with main.transaction("two notes at once") as tx:
            ...     _ = tx.put("notes/b.txt", b"...")
            ...     _ = tx.put("notes/c.txt", b"...")
            >>> main.head.message
            'two notes at once'
        """
        options = merges.MergeOptions(
            resolution=choosing.parse_resolution(strategy, rules),
            message=message,
            committer=committer,
            metadata=metadata,
        )
        with transactions.transaction(self._context, self.name, options, expires) as name:
            yield Branch(self._context, name)
