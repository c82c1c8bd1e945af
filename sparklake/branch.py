"""A branch: the only mutable part of a repository."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.graveler.keys import path_tuple
from sparklake.verbs.base.arguments import KEPT_FOR, Objects
from sparklake.verbs.base.once import COMMIT, COMMITS, COUNT, NOTHING, Once, VerbResult
from sparklake.verbs.base.resolve import get_branch
from sparklake.verbs.base.runner import runs_verbs, verb

# Lazy imports: a verb is imported where it is called. All of them take 0.5 s.
if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sparklake.engine.explanation import Explanation
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.ports import BranchState
    from sparklake.rows.diffs import DiffRow
    from sparklake.rows.objects import ObjectInfo
    from sparklake.strategies.choosing import RulesLike, StrategyLike
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.diffs.differences import Differences
    from sparklake.verbs.history.show import BranchStatus
    from sparklake.verbs.iceberg.write import IcebergEdit
    from sparklake.verbs.imports.import_objects import ImportReport
    from sparklake.verbs.imports.sources import ImportSource
    from sparklake.verbs.objects.restore import RestoreResult
    from sparklake.verbs.objects.upload import FolderUpload
    from sparklake.verbs.tables.edits import EditLocation
    from sparklake.verbs.tables.stream_writes import OpenBranch
    from sparklake.verbs.tables.write_request import TableWrite


@contextmanager
def _open_branch(
    opener: Callable[..., Any], repository: str, name: str, spark: SparkSession
) -> Iterator[Branch]:
    with opener(spark=spark) as lake:
        yield lake.repository(repository).branch(name)


@runs_verbs
class Branch:
    """A branch of a repository. Changes are staged until they are committed.

    Staging many objects is atomic. With `if_needed`, a no-op returns the head, or no commits. Verbs
    raise RefNotFoundError for a missing branch, ReadOnlyError or ProtectedError for a guarded one,
    and RaceLostError if it keeps moving.
    """

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self.name = name

    def __repr__(self) -> str:
        return f"Branch(lakefs://{self._context.info.name}/{self.name})"

    @property
    def state(self) -> BranchState:
        """A consistent snapshot of the head and the staged changes."""
        return get_branch(self._context, self.name)

    @property
    def head(self) -> Commit:
        """The latest commit."""
        return self._context.graph.head(self.state)

    @property
    def is_dirty(self) -> bool:
        """Whether there are staged changes."""
        return bool(self.state.layers)

    def count_staged(self) -> int:
        """Return the number of staged changes. A path staged twice may count twice."""
        from sparklake.verbs.base.staging import count_staged

        return count_staged(self._context, get_branch(self._context, self.name))

    def status(self, against: str | None = None) -> BranchStatus:
        """Return the head, the number of staged changes, and the commits ahead and behind."""
        from sparklake.verbs.history.show import status

        return status(self._context, self.name, against)

    def diff(self, prefix: str = "") -> Differences[DiffRow]:
        """Return the effective staged changes."""
        from sparklake.verbs.diffs.differences import diff_uncommitted

        return diff_uncommitted(self._context, self.name, prefix)

    def plan(self, paths: Sequence[str] | None = None) -> Explanation:
        """Return the reads, copies and engine of a commit, without running it."""
        from sparklake.graveler.planning.path_filter import filter_for
        from sparklake.verbs.commits import explain_commit

        return explain_commit(self._context, self.name, filter_for(paths))

    @verb("commit", COMMIT, head=lambda branch, _: branch.head)
    def commit(
        self,
        message: str,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        paths: Sequence[str] | None = None,
        if_needed: bool = False,
        once: str | Once | None = None,
    ) -> Commit:
        """Commit the staged changes, or those of `paths`. Writers are not blocked.

        Raises NoChangesError, AlreadyCommittedError.

        Examples:
            >>> _ = branch.put("notes/b.txt", b"second")
            >>> branch.commit("add a note", metadata={"ticket": "1234"}).message
            'add a note'
        """
        from sparklake.graveler.planning.path_filter import filter_for
        from sparklake.verbs.commits import CommitOptions, commit

        options = CommitOptions(
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
            path_filter=filter_for(paths),
        )
        return commit(self._context, self.name, options)

    # --- objects ----------------------------------------------------------------------------------

    @verb("put", "sparklake.verbs.objects.stage")
    def put(
        self,
        path: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        once: str | Once | None = None,
    ) -> ObjectInfo:
        """Write an object into the storage namespace and stage it.

        Examples:
            >>> branch.put("notes/b.txt", b"second").size
            6
        """
        from sparklake.verbs.objects.stage import Labels, put_bytes

        return put_bytes(self._context, self.name, path, body, Labels(metadata or {}, content_type))

    @verb("put", "sparklake.verbs.objects.stage", files=("file",))
    def put_file(
        self,
        path: str,
        file: str | Path,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        once: str | Once | None = None,
    ) -> ObjectInfo:
        """Copy a local file of any size into the storage namespace and stage it.

        A path that ends with a '/' is a folder, to which the file's name is added.
        """
        from sparklake.verbs.objects.stage import Labels, put_file

        labels, file = Labels(metadata or {}, content_type), Path(file)
        key = f"{path}{file.name}" if path.endswith("/") else path
        return put_file(self._context, self.name, key, file, labels)

    @verb("put_many", COUNT)
    def put_many(
        self,
        objects: Objects,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        follow_links: bool = False,
        once: str | Once | None = None,
    ) -> int:
        """Write many objects and stage them at once; return their number.

        `objects` has bytes, or Paths of local files, by path: a mapping, or streamed pairs. Raises
        InvalidRowsError for a repeated path, and InvalidInputError for an unfollowed link.

        Examples:
            >>> branch.put_many({"notes/b.txt": b"...", "notes/c.txt": b"..."})
            2
            >>> [each.path for each in branch.diff()]
            ['notes/b.txt', 'notes/c.txt']
        """
        from sparklake.verbs.objects.stage import Labels
        from sparklake.verbs.objects.upload import put_many

        labels = Labels(metadata or {}, content_type)
        return put_many(self._context, self.name, objects, labels, follow_links=follow_links)

    @verb("put_folder", "sparklake.verbs.objects.upload")
    def put_folder(
        self,
        prefix: str,
        folder: str | Path,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        follow_links: bool = False,
        once: str | Once | None = None,
    ) -> FolderUpload:
        """Stage all files below a folder, under a prefix; the result lists skipped files."""
        from sparklake.verbs.objects.stage import Labels
        from sparklake.verbs.objects.upload import put_folder

        labels = Labels(metadata or {}, content_type)
        return put_folder(
            self._context, self.name, prefix, Path(folder), labels, follow_links=follow_links
        )

    def open(
        self,
        path: str,
        mode: str = "rb",
        encoding: str = "utf-8",
        errors: str | None = None,
        newline: str | None = None,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
    ) -> IO[Any]:
        """Open one object for reading, or a new one, staged on close.

        The mode x raises AlreadyExistsError. Written data stays on local disk until closed; nothing
        is staged if the `with` body raises.

        Examples:
            >>> with branch.open("notes/b.txt", "w") as file:
            ...     _ = file.write("second")
        """
        from sparklake.verbs.objects.open_files import (
            FileMode,
            TextOptions,
            open_to_read,
            open_to_write,
        )
        from sparklake.verbs.objects.stage import Labels

        how, text = FileMode.of(mode), TextOptions(encoding, errors, newline)
        if how.kind == "r":
            return open_to_read(self._context, self.name, path, how, text)
        labels = Labels(metadata or {}, content_type)
        return open_to_write(self._context, self.name, path, how, text, labels)

    @verb("delete", NOTHING)
    def delete(self, path: str, once: str | Once | None = None) -> None:
        """Stage the removal of an object. A missing object is not an error.

        Examples:
            >>> branch.delete("raw/orders.csv")
            >>> [each.type.value for each in branch.diff()]
            ['removed']
        """
        from sparklake.verbs.objects.stage import delete_object

        delete_object(self._context, self.name, path)

    @verb("delete_prefix", COUNT)
    def delete_prefix(self, prefix: str, once: str | Once | None = None) -> int:
        """Stage the removal of every object under a prefix; return their number."""
        from sparklake.verbs.objects.stage import delete_prefix

        return delete_prefix(self._context, self.name, prefix)

    @verb("remove", COUNT)
    def remove(self, path: str, recursive: bool = False, once: str | Once | None = None) -> int:
        """Stage the removal of an object; return their number. Raises ObjectNotFoundError."""
        from sparklake.verbs.objects.stage import remove_folder, remove_object

        take = remove_folder if recursive else remove_object
        return take(self._context, self.name, path)

    @verb("remove_many", COUNT)
    def remove_many(self, paths: Sequence[str], once: str | Once | None = None) -> int:
        """Stage the removal of existing objects; return their number."""
        from sparklake.verbs.objects.stage import remove_objects

        return remove_objects(self._context, self.name, path_tuple(paths))

    @verb("copy_many", COUNT)
    def copy_many(
        self,
        paths: Iterable[tuple[str, str]],
        ref: str | None = None,
        once: str | Once | None = None,
    ) -> int:
        """Stage copies, given as pairs of source and dest; return their number."""
        from sparklake.verbs.objects.upload import copy_many

        return copy_many(self._context, self.name, ref or self.name, paths)

    @verb("move", COUNT)
    def move(
        self,
        source: str,
        dest: str,
        recursive: bool = False,
        force: bool = False,
        once: str | Once | None = None,
    ) -> int:
        """Move objects to other paths (staged), as `copy` does; return their number."""
        from sparklake.verbs.objects.copy import CopyRequest, move

        request = CopyRequest(source, dest, recursive=recursive, force=force)
        return move(self._context, self.name, request)

    @verb("copy", COUNT)
    def copy(
        self,
        source: str,
        dest: str,
        ref: str | None = None,
        recursive: bool = False,
        force: bool = False,
        once: str | Once | None = None,
    ) -> int:
        """Copy objects, of `ref` if given, to other paths (staged); return their number.

        No bytes are copied. `a/` is everything below it, and `a` an object, recursively also
        everything below `a/`. Raises ObjectNotFoundError, and AlreadyExistsError unless `force`.
        """
        from sparklake.verbs.objects.copy import CopyRequest, copy

        request = CopyRequest(source, dest, ref, recursive, force)
        return copy(self._context, self.name, request)

    @verb("stage", NOTHING)
    def stage(self, objects: pa.Table | DataFrame, once: str | Once | None = None) -> None:
        """Stage the objects in rows.

        Columns: `path` string, `size` bytes, `address` a URI or a key in the storage namespace, and
        optionally `checksum`, `mtime` timestamp, `metadata` map, `content_type`, `deleted`. Missing
        checksums are computed. Raises InvalidRowsError.
        """
        from sparklake.verbs.objects.stage import stage_rows

        stage_rows(self._context, self.name, objects)

    # --- tables and imports -----------------------------------------------------------------------

    @verb("write", "sparklake.verbs.tables.write_request")
    def write(
        self,
        rows: DataFrame,
        path: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        mode: str = "errorifexists",
        partition_by: Sequence[str] = (),
        once: str | Once | None = None,
        schema_check: bool = True,
        **options: Any,
    ) -> TableWrite:
        """Write a DataFrame with Spark's own writers and stage its files.

        Without a format, an existing table keeps its own, and a new one is Parquet.
        `mode` is append, overwrite, overwrite-partitions (replaces only the partitions of the
        rows), errorifexists or ignore. Rows added to Parquet files need their columns (or
        `mergeSchema`) and types, unless `schema_check` is False.
        """
        from sparklake.verbs.tables.edits import write_table
        from sparklake.verbs.tables.registry import PARQUET, found_format
        from sparklake.verbs.tables.version import open_table
        from sparklake.verbs.tables.write_request import write_request

        table = None if format else open_table(self._context, self.name, path)
        request = write_request(
            rows=rows,
            branch=self.name,
            path=path,
            table_format=format or (found_format(table) if table else PARQUET),
            mode=mode,
            partition_by=partition_by,
            options=options,
            schema_check=schema_check,
        )
        return write_table(self._context, rows, request, table)

    def write_stream(
        self,
        rows: DataFrame,
        path: str,
        checkpoint: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        output_mode: str = "append",
        partition_by: Sequence[str] = (),
        trigger: Mapping[str, Any] | None = None,
        every: int = 1,
        query_name: str | None = None,
        schema_check: bool = True,
        **options: Any,
    ) -> StreamingQuery:
        """Start a query that writes the micro-batches of a stream, each exactly once.

        Without a format, an existing table keeps its own, and a new one is Parquet. Every
        `every`-th micro-batch ends with a commit of the table's staged changes, which has the
        query, the batch and the offsets in its metadata. `trigger` has the arguments of Spark's
        trigger, such as `{"availableNow": True}`. In the output mode complete, each micro-batch
        replaces the table. Keep the lake open while the query runs. Spark's StreamingQuery raises
        the errors of `write` and `commit`.
        """
        from sparklake.verbs.tables.stream_writes import StreamWrite, start_stream

        write = StreamWrite(
            path=path,
            checkpoint=checkpoint,
            format=format or self._format_at(path),
            output_mode=output_mode,
            every=every,
            partition_by=partition_by,
            trigger=trigger,
            query_name=query_name,
            schema_check=schema_check,
            options=options,
        )
        return start_stream(self._context, self.name, rows, write, self._opened_by_queries())

    def _format_at(self, path: str) -> str:
        from sparklake.verbs.tables.registry import found_format
        from sparklake.verbs.tables.version import open_table

        return found_format(open_table(self._context, self.name, path))

    def _opened_by_queries(self) -> OpenBranch:
        from pyspark.sql.utils import is_remote

        if not is_remote():
            return lambda _: nullcontext(self)
        # Spark Connect runs functions for micro-batches in a process on its server.
        opener = self._context.remote_opener()
        return partial(_open_branch, opener, self._context.info.name, self.name)

    @contextmanager
    def edit_delta(
        self, path: str, once: str | Once | None = None, history: bool = False
    ) -> Iterator[EditLocation]:
        """Yield a URI for MERGE, UPDATE, DELETE and OPTIMIZE of a Delta table.

        Delta finds the table versions since the latest checkpoint there, or all with `history`,
        which RESTORE and time travel may need.

        On exit, all commits made there are staged, or nothing if the body raises. After an earlier
        edit with the key `once`, nothing is staged: check the URI's `repeated` flag to skip the
        work. Raises TableChangedError after concurrent commits to the table.
        """
        from sparklake.verbs.tables.edits import edit_table

        context, name = self._context, self.name
        with edit_table(context, name, path, "delta", once, history=history) as location:
            yield location

    @contextmanager
    def edit_iceberg(self, path: str, once: str | Once | None = None) -> Iterator[IcebergEdit]:
        """Yield the name of an Iceberg table for SQL and DataFrames: MERGE, ALTER, CALL and more.

        Its `catalog` has Iceberg's procedures. The name is valid inside of the `with` only.

        On exit, all commits made there are staged, or nothing if the body raises. After an earlier
        edit with the key `once`, nothing is staged: check the name's `repeated` flag to skip the
        work. Raises TableChangedError after concurrent commits to the table.
        """
        from sparklake.verbs.tables.edits import edit_table

        with edit_table(self._context, self.name, path, "iceberg", once) as location:
            yield location

    @verb("import", "sparklake.verbs.imports.import_objects")
    def import_objects(
        self,
        source: ImportSource,
        prefix: str = "",
        message: str | None = None,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        replace: bool = False,
        exclude: Sequence[str] = (),
        on_error: str = "abort",
        errors_to: str | None = None,
        if_needed: bool = False,
        once: str | Once | None = None,
    ) -> ImportReport:
        """Commit existing objects in place, without copying them.

        `source` is a directory, a bucket prefix, one object, an Inventory, or rows in Spark or
        Arrow: `path`, `size`, `address`, a full URI, and optionally `checksum`, `mtime`,
        `metadata`, `content_type`. An Iceberg table is its metadata.json, or `catalog:NAME` in the
        session's catalogs; its files must be below its location. One object becomes `prefix`, or
        with a '/' at its end an object below.

        New objects are added. Objects under `prefix` that the source brought are updated, and
        removed if it no longer has them; others stay. With `replace`, the source's objects replace
        all objects there. Paths that match a glob of `exclude` are neither imported nor removed.

        Raises:
            ReplacementError: The import would change objects that the source did not bring, or the
                prefix is empty and the branch has objects; pass `replace`.
            InvalidImportError: Rows are invalid, and not skipped.
        """
        from sparklake.verbs.imports.import_objects import ImportOptions, import_objects

        options = ImportOptions(
            prefix=prefix,
            message=message,
            committer=committer,
            metadata=metadata,
            replace=replace,
            exclude=exclude,
            on_error=on_error,
            errors_to=errors_to,
            if_needed=if_needed,
        )
        return import_objects(self._context, self.name, source, options).returned()

    # --- history ----------------------------------------------------------------------------------

    @verb("revert", COMMITS)
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
        unite_tables: bool = True,
        schema_check: bool = True,
        if_needed: bool = False,
        once: str | Once | None = None,
    ) -> list[Commit]:
        """Undo commits atomically, with one new commit for each.

        A merge is compared with its parent `parent_number`, starting at 1. Conflicts with later
        changes are decided as in a merge, and raise its errors.

        Examples:
            >>> [commit] = main.revert("main")
            >>> repo.read_bytes("main", "raw/orders.csv") == repo.read_bytes("v1", "raw/orders.csv")
            True
        """
        from sparklake.strategies.choosing import parse_resolution
        from sparklake.verbs.merges.replay import revert

        return self._replay(
            revert,
            refs,
            parent_number=parent_number,
            resolution=parse_resolution(strategy, rules, unite_tables, schema_check),
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
            if_needed=if_needed,
        )

    @verb("cherry-pick", COMMITS)
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
        unite_tables: bool = True,
        schema_check: bool = True,
        if_needed: bool = False,
        once: str | Once | None = None,
    ) -> list[Commit]:
        """Apply commits to the branch atomically, with one new commit for each.

        Messages and metadata default to the originals'; the metadata identifies the original.
        Arguments and errors are those of `revert`.
        """
        from sparklake.strategies.choosing import parse_resolution
        from sparklake.verbs.merges.replay import cherry_pick

        return self._replay(
            cherry_pick,
            refs,
            parent_number=parent_number,
            resolution=parse_resolution(strategy, rules, unite_tables, schema_check),
            message=message,
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
            if_needed=if_needed,
        )

    @verb("rebase", COMMITS)
    def rebase(
        self,
        onto: str,
        strategy: StrategyLike = None,
        rules: RulesLike = None,
        unite_tables: bool = True,
        schema_check: bool = True,
        once: str | Once | None = None,
    ) -> list[Commit]:
        """Replay the branch's own commits onto a ref; return the new commits.

        Commits that become empty are dropped, as are merges of commits in `onto`; other merges
        become one commit. Raises the errors of `cherry_pick`, and NoChangesError for a branch
        already there.
        """
        from sparklake.strategies.choosing import parse_resolution
        from sparklake.verbs.merges.replay import rebase

        resolution = parse_resolution(strategy, rules, unite_tables, schema_check)
        return rebase(self._context, self.name, onto, resolution)

    @verb("reset", NOTHING)
    def reset(
        self, prefix: str | None = None, path: str | None = None, once: str | Once | None = None
    ) -> None:
        """Drop all staged changes, or those under a prefix or of one object."""
        from sparklake.verbs.commits import reset

        reset(self._context, self.name, prefix, path)

    @verb("restore", "sparklake.verbs.objects.restore")
    def restore(
        self, ref: str, paths: Sequence[str], once: str | Once | None = None
    ) -> RestoreResult:
        """Restore paths from any ref (staged).

        Staged changes of these paths are replaced, and removals are included. Raises
        ObjectNotFoundError, NoChangesError.
        """
        from sparklake.graveler.planning.path_filter import PATHS_NOUN
        from sparklake.verbs.objects.restore import restore

        return restore(self._context, self.name, ref, path_tuple(paths, PATHS_NOUN))

    @verb("hard-reset", COMMIT)
    def hard_reset(
        self,
        ref: str,
        expected: str | None = None,
        force: bool = False,
        once: str | Once | None = None,
    ) -> Commit:
        """Move the branch to any ref; return its commit.

        The previous commits remain available by id.

        Raises UnexpectedHeadError unless the head is `expected`, and DirtyBranchError for staged
        changes, unless `force` drops them.

        Examples:
            >>> main.hard_reset("v1", expected="v2.3").message
            'load the first orders'
        """
        from sparklake.verbs.refs.moves import hard_reset

        return hard_reset(self._context, self.name, ref, expected, force=force)

    @verb("undo", COMMIT)
    def undo(self, once: str | Once | None = None) -> Commit:
        """Undo the latest move of the branch; a second undo repeats it.

        Staged changes contained in an undone commit are not staged again. Raises NothingToDoError,
        DirtyBranchError.
        """
        from sparklake.verbs.refs.moves import undo

        return undo(self._context, self.name)

    def set_expiry(self, expires: timedelta | None) -> BranchState:
        """Expire the branch after a time from now, or never."""
        from sparklake.verbs.refs.branches import set_expiry

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
        """Yield a hidden branch to work on, and merge it into this one at the end.

        Others see all of the work or none. An exception in the body propagates, with a note naming
        the branch. Raises TransactionError if the merge fails, and DirtyBranchError for staged
        changes on this branch.

        Examples:
            >>> with main.transaction("two notes at once") as tx:
            ...     _ = tx.put("notes/b.txt", b"...")
            ...     _ = tx.put("notes/c.txt", b"...")
            >>> main.head.message
            'two notes at once'
        """
        from sparklake.strategies.choosing import parse_resolution
        from sparklake.verbs.merges.merge import MergeOptions
        from sparklake.verbs.merges.transaction import transaction

        options = MergeOptions(
            resolution=parse_resolution(strategy, rules),
            message=message,
            committer=committer,
            metadata=metadata,
        )
        with transaction(self._context, self.name, options, expires) as name:
            yield Branch(self._context, name)

    def _replay(
        self, run: Callable[..., list[Commit]], refs: Sequence[str], **options: Any
    ) -> list[Commit]:
        from sparklake.verbs.merges.replay import ReplayOptions

        commits = run(self._context, self.name, refs, ReplayOptions(**options))
        return VerbResult(commits, changed=bool(commits)).returned()
