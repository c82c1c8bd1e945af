"""Methods of a branch that read, stage and remove objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sparklake.argument_types import checks_arguments
from sparklake.graveler.entries import DEFAULT_CONTENT_TYPE
from sparklake.graveler.keys import path_tuple
from sparklake.udfs.objects.object_rows import ObjectInfo
from sparklake.verbs.base.context import Context
from sparklake.verbs.objects import copy as transfer
from sparklake.verbs.objects import open_files, stage
from sparklake.verbs.objects import upload as uploads

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@checks_arguments
class BranchObjects:
    """The methods of a branch that read, stage and remove objects."""

    _context: Context
    name: str

    def put(
        self,
        path: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
    ) -> ObjectInfo:
        """Write an object into the storage namespace and stage it."""
        return stage.put_bytes(self._context, self.name, path, body, metadata or {}, content_type)

    def put_file(
        self,
        path: str,
        file: str | Path,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
    ) -> ObjectInfo:
        """Copy a local file of any size into the storage namespace and stage it."""
        return stage.put_file(
            self._context, self.name, path, Path(file), metadata or {}, content_type
        )

    def put_many(
        self,
        objects: uploads.Objects,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        follow_links: bool = False,
    ) -> int:
        """Write many objects and stage all of them at once, or none; return how many.

        `objects` are bytes, or Paths of local files, by the path of each: a mapping, or pairs,
        which are taken as they come, so that there may be any number. Raises InvalidRecordError
        for a path that comes twice, InvalidInputError for a Path that is a symbolic link, unless
        links are to be followed.
        """
        labels = uploads.Labels(metadata or {}, content_type)
        return uploads.put_many(
            self._context, self.name, objects, labels, follow_links=follow_links
        )

    def put_folder(
        self,
        prefix: str,
        folder: str | Path,
        metadata: Mapping[str, str] | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        follow_links: bool = False,
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
        """Open one object to read it, or a new one, which is staged when it is closed.

        Modes are rb, wb and xb for bytes, r, w and x for text; x raises AlreadyExistsError for an
        object that is there. What is written waits on local disk; when the body of the `with`
        raises, or the file is never closed, nothing is staged.
        """
        how, text = open_files.FileMode.of(mode), open_files.TextOptions(encoding, errors, newline)
        if how.kind == "r":
            return open_files.open_to_read(self._context, self.name, path, how, text)
        return open_files.open_to_write(
            self._context, self.name, path, how, text, metadata or {}, content_type
        )

    def delete(self, path: str) -> None:
        """Stage the removal of an object; one that is not there is no error."""
        stage.delete_object(self._context, self.name, path)

    def delete_prefix(self, prefix: str) -> int:
        """Stage the removal of every object under a prefix; return how many there are."""
        return stage.delete_prefix(self._context, self.name, prefix)

    def remove(self, path: str, recursive: bool = False) -> int:
        """Stage the removal of an object, or recursively of it and all below it.

        Returns how many there are; raises ObjectNotFoundError when there is none.
        """
        take = stage.remove_folder if recursive else stage.remove_object
        return take(self._context, self.name, path)

    def remove_many(self, paths: Sequence[str]) -> int:
        """Stage the removal of the objects that are at some paths, at once; return how many."""
        return stage.remove_objects(self._context, self.name, path_tuple(paths))

    def copy_many(self, paths: Iterable[tuple[str, str]], ref: str | None = None) -> int:
        """Stage objects under other paths, pairs of source and dest, at once; return how many.

        They are of another ref if one is given. What is at a dest is overwritten. Raises
        ObjectNotFoundError, InvalidRecordError for a dest that comes twice; then none is staged.
        """
        return uploads.copy_many(self._context, self.name, ref or self.name, paths)

    def move(self, source: str, dest: str, recursive: bool = False, force: bool = False) -> int:
        """Stage objects under other paths, and their removal from the old; return how many.

        Paths and errors are those of `copy`; InvalidInputError where one lies in the other.
        """
        request = transfer.CopyRequest(source, dest, recursive=recursive, force=force)
        return transfer.move(self._context, self.name, request)

    def copy(
        self,
        source: str,
        dest: str,
        ref: str | None = None,
        recursive: bool = False,
        force: bool = False,
    ) -> int:
        """Stage objects, of another ref if one is given, under other paths; return how many.

        No byte of them is copied. `a/` is all below it, `a` is an object, and recursively also all
        below `a/`; below a `dest` that ends with a slash it keeps its last name. A path that is
        taken raises AlreadyExistsError, with `force` it is overwritten. ObjectNotFoundError where
        there is nothing, InvalidKeyError for a path that would be too long.
        """
        request = transfer.CopyRequest(source, dest, ref, recursive, force)
        return transfer.copy(self._context, self.name, request)

    def stage(self, objects: pa.Table | DataFrame) -> None:
        """Stage many objects at once; all of them, or none when a row is bad.

        Columns: `path` string, `size` bytes, `address` a URI or a key in the storage namespace,
        and, as you like, `checksum`, `mtime` timestamp, `metadata` map, `content_type`, `deleted`.
        A checksum that is not given is computed from the object. Raises InvalidRecordError.
        """
        stage.stage_rows(self._context, self.name, objects)
