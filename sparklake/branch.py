"""A branch: the only thing in a repository that changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sparklake.argument_types import checks_arguments
from sparklake.branch_objects import BranchObjects
from sparklake.engine.explanation import Explanation
from sparklake.errors import InvalidInputError
from sparklake.graveler.commits import Commit
from sparklake.graveler.planning.path_filter import filter_for
from sparklake.graveler.ports import BranchState
from sparklake.udfs.strategies.choosing import RulesLike, StrategyLike, parse_resolution
from sparklake.verbs import commits
from sparklake.verbs import commits as resets
from sparklake.verbs.base import read
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.differences import Differences
from sparklake.verbs.base.resolve import get_branch
from sparklake.verbs.commits import CommitOptions
from sparklake.verbs.delta import write as delta_writes
from sparklake.verbs.imports import import_objects as imports
from sparklake.verbs.imports.import_objects import ImportReport
from sparklake.verbs.merges import rebase as rebases
from sparklake.verbs.merges import replay
from sparklake.verbs.merges.merge import MergeOptions
from sparklake.verbs.merges.replay import ReplayOptions
from sparklake.verbs.merges.transaction import KEPT_FOR, transaction
from sparklake.verbs.objects import restore as restoring
from sparklake.verbs.objects.restore import Restored
from sparklake.verbs.refs import moves
from sparklake.verbs.refs.branches import set_expiry
from sparklake.verbs.tables import write as writes
from sparklake.verbs.tables.write_request import write_request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.verbs.imports.sources import ImportSource
    from sparklake.verbs.tables.write_request import TableWrite


@checks_arguments
class Branch(BranchObjects):
    """A branch of a repository. What is changed is staged until it is committed."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self.name = name

    def __repr__(self) -> str:
        return f"Branch(lakefs://{self._context.info.name}/{self.name})"

    @property
    def state(self) -> BranchState:
        """The head and what is staged, as of one moment; raises RefNotFoundError."""
        return get_branch(self._context, self.name)

    @property
    def head(self) -> Commit:
        """The latest commit; raises RefNotFoundError when the branch is gone."""
        return self._context.graph.commit(self.state.commit_id)

    @property
    def is_dirty(self) -> bool:
        """Whether anything is staged."""
        return bool(self.state.layers)

    def write(
        self,
        rows: DataFrame,
        path: str,
        format: str = "parquet",  # noqa: A002  (Spark's own word)
        mode: str = "errorifexists",
        partition_by: Sequence[str] = (),
        **options: Any,
    ) -> TableWrite:
        """Write a DataFrame with Spark's own writers and stage its files.

        `mode` is append, overwrite, overwrite-partitions (only those that the rows are in),
        errorifexists or ignore; `options` go to Spark's writer.
        """
        request = write_request(rows, self.name, path, format, mode, partition_by, options)
        if request.is_delta:
            return delta_writes.write_delta(self._context, rows, request)
        return writes.write_table(self._context, rows, request)

    @contextmanager
    def edit_delta(self, path: str) -> Iterator[str]:
        """Yield a URI where Delta may change the table at a path: MERGE, UPDATE, DELETE, OPTIMIZE.

        At the end all that it has committed there is staged, and nothing where the body raises.
        Raises TableMovedError where others have committed to the table meanwhile.
        """
        with delta_writes.edit_delta(self._context, self.name, path) as location:
            yield location

    def diff(self, prefix: str = "") -> Differences:
        """Return what is staged and would change the branch."""
        return read.diff_uncommitted(self._context, self.name, prefix)

    def plan(self, paths: Sequence[str] | None = None) -> Explanation:
        """Return what a commit would read and copy, and where it would run; nothing moves."""
        return commits.explain_commit(self._context, self.name, filter_for(paths))

    def commit(
        self,
        message: str,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        paths: Sequence[str] | None = None,
    ) -> Commit:
        """Commit what is staged; writers may go on meanwhile.

        With `paths` (objects, or prefixes that end with '/'), only of these; the rest stays staged.
        Raises NoChangesError, ChangesTakenError, RaceLostError.
        """
        options = CommitOptions(
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
            path_filter=filter_for(paths),
        )
        return commits.commit(self._context, self.name, options)

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
    ) -> ImportReport:
        """Commit objects where they lie, copying nothing: the `commit` of the report.

        `source` is a directory or bucket prefix, an S3Inventory, or rows, as a Spark DataFrame or
        in Arrow: `path`, `size`, `address`, a full URI, and, as you like, `checksum`, `mtime`,
        `metadata`, `content_type`. The mode `replace` takes away what the branch holds under
        `prefix`, `add` keeps it. Rows that cannot be imported raise ImportErrorsError, or are left
        out by `on_error="skip"`; `errors_to` is an empty place for a table of them. Raises
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
        )
        return imports.import_objects(self._context, self.name, source, options)

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
    ) -> list[Commit]:
        """Undo what commits changed, each by a commit of its own; all of them, or none.

        A merge is undone as seen from one of its parents: `parent_number`, from 1 on. Raises
        MergeConflictError where what they changed was changed again, and the errors of a merge;
        conflicts are decided as in one, too.
        """
        options = ReplayOptions(
            parent_number=parent_number,
            resolution=parse_resolution(strategy, rules, delta),
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
        )
        return replay.revert(self._context, self.name, refs, options)

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
    ) -> list[Commit]:
        """Make the changes of commits here, each as a commit of its own; all of them, or none.

        Messages and metadata are kept where none are given, and the metadata say which commit it
        was, and whose. Takes and raises what `revert` does.
        """
        options = ReplayOptions(
            parent_number=parent_number,
            resolution=parse_resolution(strategy, rules, delta),
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
        )
        return replay.cherry_pick(self._context, self.name, refs, options)

    def rebase(
        self,
        onto: str,
        strategy: StrategyLike = None,
        rules: RulesLike = None,
        delta: bool = True,
    ) -> list[Commit]:
        """Move the branch onto a ref, with its own commits made once more there; return these.

        Each keeps message, committer and metadata, which say what it was before. One that becomes
        empty is left out, and so is a merge of what `onto` contains; another merge becomes one
        commit. Raises what `cherry_pick` does, NoChangesError where it stands there already.
        """
        resolution = parse_resolution(strategy, rules, delta)
        return rebases.rebase(self._context, self.name, onto, resolution)

    def reset(self, prefix: str | None = None, path: str | None = None) -> None:
        """Drop what is staged: all of it, or only under a prefix, or only of one object."""
        if prefix is not None and path is not None:
            raise InvalidInputError("reset takes a prefix or a path, not both")
        if path is not None:
            resets.reset_object(self._context, self.name, path)
        elif prefix is not None:
            resets.reset_prefix(self._context, self.name, prefix)
        else:
            self._context.refs.staging.reset(self.name)

    def restore(self, ref: str, paths: Sequence[str]) -> Restored:
        """Stage what makes some paths what they are at a ref, removals included.

        A path is an object's, or a prefix that ends with '/'. What was staged of them gives way.
        Raises ObjectNotFoundError, NoChangesError, RaceLostError.
        """
        return restoring.restore(self._context, self.name, ref, paths)

    def hard_reset(self, ref: str, expected: str | None = None, force: bool = False) -> Commit:
        """Move the branch to any ref; return its commit. Commits it leaves behind stay by id.

        Raises UnexpectedHeadError when its head is not the commit of `expected`, DirtyBranchError
        when something is staged, which is dropped with `force`.
        """
        return moves.hard_reset(self._context, self.name, ref, expected, force=force)

    def undo(self) -> Commit:
        """Move the branch back to before its latest move; to undo twice makes the move again.

        What a commit took from the staged changes stays in that commit, which stays by id. Raises
        NothingToDoError, DirtyBranchError, RaceLostError.
        """
        return moves.undo(self._context, self.name)

    def set_expiry(self, expires: timedelta | None) -> BranchState:
        """Let the branch be pruned when that time from now is over, or never.

        Raises ProtectedError for the default branch.
        """
        return set_expiry(self._context, self.name, expires)

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

        Others see all of the work, or none. When the body raises, its exception goes through, with
        the name of the branch that keeps the work in a note. Raises TransactionError when the work
        cannot be merged, DirtyBranchError when something is staged here.
        """
        options = MergeOptions(
            resolution=parse_resolution(strategy, rules),
            message=message,
            committer=committer,
            metadata=metadata,
        )
        with transaction(self._context, self.name, options, expires) as name:
            yield Branch(self._context, name)
