"""Methods of a branch that read, stage and remove objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sparklake._lightness import lazy_module
from sparklake.argument_types import checks_arguments
from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.verbs.base.once import COUNT, NOTHING, Once, runs_once
from sparklake.verbs.base.resolve import get_branch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sparklake.graveler import keys
    from sparklake.rows.objects import ObjectInfo
    from sparklake.verbs.base import staging
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.objects import copy as transfer
    from sparklake.verbs.objects import open_files, stage
    from sparklake.verbs.objects import upload as uploads
else:
    # Lazy imports: a verb is imported when it is called. All of them take 0.5 s.
    keys = lazy_module("sparklake.graveler.keys")
    staging = lazy_module("sparklake.verbs.base.staging")
    transfer = lazy_module("sparklake.verbs.objects.copy")
    open_files = lazy_module("sparklake.verbs.objects.open_files")
    stage = lazy_module("sparklake.verbs.objects.stage")
    uploads = lazy_module("sparklake.verbs.objects.upload")


@checks_arguments
class BranchObjects:
    """The methods of a branch that read, stage and remove objects."""

    _context: Context
    name: str

    def count_staged(self) -> int:
        """Return the number of staged changes. A path may count once for each time it is staged."""
        return staging.count_staged(self._context, get_branch(self._context, self.name))

    @runs_once("put", lambda: stage.RESULT)
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
        return stage.put_bytes(self._context, self.name, path, body, metadata or {}, content_type)

    @runs_once("put", lambda: stage.RESULT, files=("file",))
    def put_file(
        self,
        path: str,
        file: str | Path,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        once: str | Once | None = None,
    ) -> ObjectInfo:
        """Copy a local file of any size into the storage namespace and stage it."""
        return stage.put_file(
            self._context, self.name, path, Path(file), metadata or {}, content_type
        )

    @runs_once("put_many", COUNT)
    def put_many(
        self,
        objects: uploads.Objects,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        follow_links: bool = False,
        once: str | Once | None = None,
    ) -> int:
        """Write many objects and stage all of them at once, or none; return their number.

        `objects` are bytes, or Paths of local files, by path: a mapping, or pairs, which are
        streamed, so there may be any number. Raises InvalidRecordError for a repeated path, and
        InvalidInputError for a Path that is a symbolic link, unless links are followed.

        Examples:
            >>> branch.put_many({"notes/b.txt": b"...", "notes/c.txt": b"..."})
            2
            >>> [each.path for each in branch.diff()]
            ['notes/b.txt', 'notes/c.txt']
        """
        labels = uploads.Labels(metadata or {}, content_type)
        return uploads.put_many(
            self._context, self.name, objects, labels, follow_links=follow_links
        )

    @runs_once("put_folder", lambda: uploads.RESULT)
    def put_folder(
        self,
        prefix: str,
        folder: str | Path,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        follow_links: bool = False,
        once: str | Once | None = None,
    ) -> uploads.FolderUpload:
        """Copy all files below a local folder, under a prefix, and stage them at once.

        Symbolic links below it are skipped, or followed on request. What was skipped is in the
        result: links, FIFOs, sockets and devices.
        """
        labels = uploads.Labels(metadata or {}, content_type)
        return uploads.put_folder(
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
        """Open one object for reading, or a new one, which is staged on close.

        Modes are rb, wb and xb for bytes, r, w and x for text; x raises AlreadyExistsError for an
        existing object. Written data stays on local disk until then. If the body of the `with`
        raises, or the file is never closed, nothing is staged.

        Examples:
            >>> with branch.open("notes/b.txt", "w") as file:
            ...     _ = file.write("second")
        """
        how, text = open_files.FileMode.of(mode), open_files.TextOptions(encoding, errors, newline)
        if how.kind == "r":
            return open_files.open_to_read(self._context, self.name, path, how, text)
        return open_files.open_to_write(
            self._context, self.name, path, how, text, metadata or {}, content_type
        )

    @runs_once("delete", NOTHING)
    def delete(
        self,
        path: str,
        once: str | Once | None = None,
    ) -> None:
        """Stage the removal of an object; a missing object is not an error.

        Examples:
            >>> branch.delete("raw/orders.csv")
            >>> [each.type.value for each in branch.diff()]
            ['removed']
        """
        stage.delete_object(self._context, self.name, path)

    @runs_once("delete_prefix", COUNT)
    def delete_prefix(
        self,
        prefix: str,
        once: str | Once | None = None,
    ) -> int:
        """Stage the removal of every object under a prefix; return their number."""
        return stage.delete_prefix(self._context, self.name, prefix)

    @runs_once("remove", COUNT)
    def remove(
        self,
        path: str,
        recursive: bool = False,
        once: str | Once | None = None,
    ) -> int:
        """Stage the removal of an object, or recursively of it and everything below it.

        Returns their number; raises ObjectNotFoundError if there are none.
        """
        take = stage.remove_folder if recursive else stage.remove_object
        return take(self._context, self.name, path)

    @runs_once("remove_many", COUNT)
    def remove_many(
        self,
        paths: Sequence[str],
        once: str | Once | None = None,
    ) -> int:
        """Stage the removal of existing objects at once; return their number."""
        return stage.remove_objects(self._context, self.name, keys.path_tuple(paths))

    @runs_once("copy_many", COUNT)
    def copy_many(
        self,
        paths: Iterable[tuple[str, str]],
        ref: str | None = None,
        once: str | Once | None = None,
    ) -> int:
        """Stage copies, given as pairs of source and dest, at once; return their number.

        They come from another ref if one is given. Existing objects are overwritten. Raises
        ObjectNotFoundError, and InvalidRecordError for a repeated dest; then none is staged.
        """
        return uploads.copy_many(self._context, self.name, ref or self.name, paths)

    @runs_once("move", COUNT)
    def move(
        self,
        source: str,
        dest: str,
        recursive: bool = False,
        force: bool = False,
        once: str | Once | None = None,
    ) -> int:
        """Move objects to other paths (staged); return their number.

        Paths and errors are those of `copy`; InvalidInputError if one contains the other.
        """
        request = transfer.CopyRequest(source, dest, recursive=recursive, force=force)
        return transfer.move(self._context, self.name, request)

    @runs_once("copy", COUNT)
    def copy(
        self,
        source: str,
        dest: str,
        ref: str | None = None,
        recursive: bool = False,
        force: bool = False,
        once: str | Once | None = None,
    ) -> int:
        """Copy objects to other paths (staged); return their number.

        They come from another ref if one is given.
        No bytes are copied. `a/` means everything below it, `a` means an object, and recursively
        also everything below `a/`. Below a `dest` that ends with a slash, `a` keeps its last name.
        An existing path raises AlreadyExistsError, or is overwritten with `force`. Raises
        ObjectNotFoundError for a missing source, and InvalidKeyError for a path that would be too
        long.
        """
        request = transfer.CopyRequest(source, dest, ref, recursive, force)
        return transfer.copy(self._context, self.name, request)

    @runs_once("stage", NOTHING)
    def stage(
        self,
        objects: pa.Table | DataFrame,
        once: str | Once | None = None,
    ) -> None:
        """Stage many objects at once; all of them, or none if a row is invalid.

        Columns: `path` string, `size` bytes, `address` a URI or a key in the storage namespace, and
        optionally `checksum`, `mtime` timestamp, `metadata` map, `content_type`, `deleted`. A
        missing checksum is computed from the object. Spark computes the rows of a DataFrame with
        checksums twice. Raises InvalidRecordError.
        """
        stage.stage_rows(self._context, self.name, objects)
