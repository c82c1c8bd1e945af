"""Read methods of a repository: objects, tables, differences and history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from sparklake.argument_types import checks_arguments
from sparklake.engine.lazy_rows import Rows
from sparklake.graveler.commits import Commit
from sparklake.graveler.ranges import MetaRange
from sparklake.udfs.objects.object_rows import ObjectInfo
from sparklake.verbs.base import read
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.differences import Differences
from sparklake.verbs.base.resolve import get_commit
from sparklake.verbs.base.snapshot import Snapshot, kept_object, open_snapshot, stat_object
from sparklake.verbs.delta.format import DELTA_FORMAT
from sparklake.verbs.history import log as history
from sparklake.verbs.history.blame import Blame, blame
from sparklake.verbs.history.log import CommitSummary, Log, LogOptions
from sparklake.verbs.merges import bases
from sparklake.verbs.merges.diff import diff_refs
from sparklake.verbs.objects import list as folders
from sparklake.verbs.objects import open_files
from sparklake.verbs.objects.list import Folder
from sparklake.verbs.refs.moves import head_at
from sparklake.verbs.tables import read as tables
from sparklake.verbs.tables.row_diff import TableDiff, diff_table
from sparklake.verbs.tables.version import open_table

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame


@checks_arguments
class RepositoryReads:
    """The read methods of a repository. Nothing moves."""

    _context: Context

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
        return open_files.open_to_read(self._context, ref, path, open_files.FileMode.of(mode), text)

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
