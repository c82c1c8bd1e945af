"""Read methods of a repository: objects, tables, differences and history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, overload

from sparklake._lightness import lazy_module
from sparklake.argument_types import checks_arguments
from sparklake.errors import InvalidInputError
from sparklake.verbs.base.resolve import get_commit

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from sparklake.engine.lazy_rows import Rows
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.ranges import MetaRange
    from sparklake.rows.objects import ObjectInfo
    from sparklake.udfs.diffs.three_way import ThreeWayRow
    from sparklake.udfs.diffs.two_way import DiffRow
    from sparklake.verbs.base import merge_bases as bases
    from sparklake.verbs.base import read
    from sparklake.verbs.base import snapshot as snapshots
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.base.snapshot import Snapshot
    from sparklake.verbs.delta import format as delta
    from sparklake.verbs.diffs import diff as diffs
    from sparklake.verbs.diffs import texts
    from sparklake.verbs.diffs.differences import Differences
    from sparklake.verbs.diffs.texts import TextDiff
    from sparklake.verbs.history import blame as blames
    from sparklake.verbs.history import log as history
    from sparklake.verbs.history import show as summaries
    from sparklake.verbs.history.blame import Blame
    from sparklake.verbs.history.log import Log
    from sparklake.verbs.history.show import CommitSummary
    from sparklake.verbs.merges import preview
    from sparklake.verbs.objects import list as folders
    from sparklake.verbs.objects import open_files
    from sparklake.verbs.objects.list import Folder
    from sparklake.verbs.refs import moves
    from sparklake.verbs.tables import read as tables
    from sparklake.verbs.tables import row_diff, version
    from sparklake.verbs.tables.row_diff import TableDiff
else:
    # Lazy imports: a verb is imported when it is called. All of them take 0.5 s.
    read = lazy_module("sparklake.verbs.base.read")
    snapshots = lazy_module("sparklake.verbs.base.snapshot")
    delta = lazy_module("sparklake.verbs.delta.format")
    blames = lazy_module("sparklake.verbs.history.blame")
    history = lazy_module("sparklake.verbs.history.log")
    summaries = lazy_module("sparklake.verbs.history.show")
    preview = lazy_module("sparklake.verbs.merges.preview")
    bases = lazy_module("sparklake.verbs.base.merge_bases")
    diffs = lazy_module("sparklake.verbs.diffs.diff")
    texts = lazy_module("sparklake.verbs.diffs.texts")
    folders = lazy_module("sparklake.verbs.objects.list")
    open_files = lazy_module("sparklake.verbs.objects.open_files")
    moves = lazy_module("sparklake.verbs.refs.moves")
    tables = lazy_module("sparklake.verbs.tables.read")
    row_diff = lazy_module("sparklake.verbs.tables.row_diff")
    version = lazy_module("sparklake.verbs.tables.version")


@checks_arguments
class RepositoryReads:
    """The read methods of a repository. Nothing moves."""

    _context: Context

    def resolve(self, ref: str) -> Commit:
        """Return the commit of a ref: an id, branch, tag or unique prefix, then ~N and ^N."""
        return get_commit(self._context, ref)

    def at_time(self, branch: str, moment: datetime) -> Commit:
        """Return the commit that was the branch head at a timezone-aware datetime.

        Raises RefNotFoundError for a time before the branch was created.
        """
        return moves.head_at(self._context, branch, moment)

    def tree(self, ref: str) -> MetaRange:
        """Return the tree of a ref, as committed: its ranges, without reading them."""
        return self._context.tree(self.resolve(ref))

    def objects(self, ref: str, prefix: str = "") -> Rows[ObjectInfo]:
        """Return the objects of a ref, including a branch's staged changes.

        `branch@` leaves them out, and `branch$` has only them. Iterate over the result, or call
        `to_arrow()` or `to_df()`.

        Examples:
            >>> [each.path for each in repo.objects("main", "raw/")]
            ['raw/customers.csv', 'raw/orders.csv']
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

        Examples:
            >>> repo.stat("v1", "raw/orders.csv").size
            19
        """
        find = snapshots.kept_object if to_read else snapshots.stat_object
        return find(self._context, ref, path)

    def at(self, ref: str) -> Snapshot:
        """Return a snapshot of a ref for lookups: `stat`, `exists`, `lookup` of many.

        Examples:
            >>> repo.at("main").exists("raw/orders.csv")
            True
        """
        return snapshots.open_snapshot(self._context, ref)

    def read_bytes(self, ref: str, path: str) -> bytes:
        r"""Return the content of one object; raise MissingFileError, CorruptFileError.

        Examples:
            >>> repo.read_bytes("main~1", "notes/a.txt")
            b'first\n'
        """
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
        text = open_files.TextOptions(encoding, errors, newline)
        return open_files.open_to_read(self._context, ref, path, open_files.FileMode.of(mode), text)

    def read(
        self,
        ref: str,
        path: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        timestamp: datetime | None = None,
        **options: Any,
    ) -> DataFrame:
        """Return the table under a path as a DataFrame, including partition columns.

        With a timestamp, return its state on a branch at that time. The default format is delta for
        a path with a Delta log, else parquet. `options` go to Spark's reader. Raises
        ObjectNotFoundError.
        """
        ref = ref if timestamp is None else self.at_time(ref, timestamp).id
        return tables.read_table(
            self._context,
            version.open_table(self._context, ref, path),
            format,
            options,
            delta.DELTA_FORMAT,
        )

    def view(
        self,
        ref: str,
        path: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        **options: Any,
    ) -> str:
        """Return the URI of a Delta table that shows the files under a path.

        It shows Parquet files or a Delta table, for any reader of Delta, with the default format of
        `read`. It never changes, and must not be written to.
        """
        return tables.view_table(
            self._context,
            version.open_table(self._context, ref, path),
            format,
            options,
            delta.DELTA_FORMAT,
        )

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

        Three-way: the changes in left if right were merged into it, including conflicts. Its rows
        have the sides base, source (right) and dest (left). Three-dot: the changes of right since
        the merge base. Iterate over the result, or call `by_folder()`, `summary()`, `tree()`,
        `to_arrow()` or `to_df()`. Raises InvalidInputError for both at once.

        Examples:
            >>> [(each.type.value, each.path) for each in repo.diff("main", "dev", "raw/")]
            [('added', 'raw/more/a.csv')]
        """
        if three_way and three_dot:
            raise InvalidInputError("choose one of a three-way and a three-dot diff")
        if three_way:
            return preview.diff_three_way(self._context, left, right, prefix)
        return diffs.diff_refs(self._context, left, right, prefix, three_dot=three_dot)

    def diff_texts(
        self, left: str, right: str | None = None, prefix: str = "", three_dot: bool = False
    ) -> Iterator[TextDiff]:
        """Yield the differences of `diff`, with the changed lines of text objects.

        Without a right ref, they are the staged changes of a branch. Objects that are not text, or
        larger than 1 MiB or 20,000 lines, have no lines but a reason.

        Examples:
            >>> [each.lines[-2:] for each in repo.diff_texts("main", "dev", "config/")]
            [('-{"tax": 19}', '+{"tax": 20}')]
        """
        return texts.diff_texts(self._context, left, right, prefix, three_dot=three_dot)

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
        """Return the rows of a table that differ from left to right, as committed.

        The format is parquet, orc or delta, by default that of `read`. `columns` are those to
        compare, by default all. Only files that differ are read. Call `to_df()`, `counts()` or
        `schema_changes`.
        """
        refs = left, right
        return row_diff.diff_table(
            self._context, refs, path, key, format, columns, options, delta.DELTA_FORMAT
        )

    def diff_uncommitted(self, branch: str, prefix: str = "") -> Differences[DiffRow]:
        """Return the staged changes of a branch that would change it."""
        return diffs.diff_uncommitted(self._context, branch, prefix)

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

        Examples:
            >>> [commit.message for commit in repo.log("main", amount=2)]
            ['load more orders', 'load the first orders']
        """
        options = history.LogOptions(
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

    def blame(self, ref: str, prefix: str = "") -> Blame:
        """Return, for each object under a prefix, the last commit that changed it.

        Iterate over the result, or call `to_arrow()` or `to_df()`. Staged changes are not part of
        history.
        """
        return blames.blame(self._context, ref, prefix)

    def changes(self, ref: str, prefix: str = "") -> Blame:
        """Return the result of `blame`, one row per object."""
        return self.blame(ref, prefix)

    def show(self, ref: str) -> CommitSummary:
        """Return the commit of a ref, and count its changes against its first parent."""
        return summaries.show(self._context, ref)

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
