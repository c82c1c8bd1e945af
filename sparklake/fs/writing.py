"""Writes of files to branches, singly or in one fsspec transaction."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.transaction import Transaction
from fsspec.utils import stringify_path

from sparklake.branch import Branch
from sparklake.errors import (
    ImmutableRefError,
    InvalidInputError,
    InvalidRefError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from sparklake.fs.reading import ReadingFileSystem
from sparklake.uri import SCHEME, KeyUri, LakeUri, object_uri, prefix_uri, same_repository
from sparklake.verbs.objects.open_files import ObjectTextWriter, ObjectWriter


class StagedTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """A `with fs.transaction` block.

    The files of each branch are staged at once; the last write to a path wins. Copies and removals
    are not deferred.
    """

    fs: Any

    def __init__(self, fs: Any, **kwargs: Any) -> None:
        super().__init__(fs, **kwargs)
        self.waiting: list[tuple[KeyUri, ObjectWriter]] = []

    def complete(self, commit: bool = True) -> None:
        """Stage the written files, or discard them."""
        try:
            if commit:
                self._stage()
        finally:
            for _, file in self.waiting:
                file.discard()
            self.waiting.clear()
            self.files.clear()
            self.fs._intrans = False
            self.fs._transaction = None
            self.fs = None

    def _stage(self) -> None:
        branches: dict[LakeUri, dict[str, Path]] = {}
        for place, file in self.waiting:
            if not file.is_dropped:
                file.close()
                ref = LakeUri(place.repository, place.ref)
                branches.setdefault(ref, {})[place.key] = file.file
        for ref, files in branches.items():
            self.fs.branch(ref).put_many(files)


Pairs = list[tuple[str, str]]

_TEXT_OPTIONS = {"encoding", "errors", "newline"}


class WritingFileSystem(ReadingFileSystem):
    """Writes of files to branches."""

    transaction_type = StagedTransaction

    def branch(self, place: LakeUri | KeyUri) -> Branch:
        """Return the branch to write to."""
        ref = cast("str", place.ref)
        repository = self.repository(place.repository)
        try:
            return repository.branch(ref)
        except RefNotFoundError:
            with suppress(InvalidRefError):
                repository.resolve(ref)
            raise ImmutableRefError(
                f"{SCHEME}{place.repository}/{ref} is not a branch, and never changes: write "
                "to a branch"
            ) from None

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> IO[Any]:
        """Open a file: rb, wb, xb, or r, w, x for text, in UTF-8 by default.

        A file is staged when it is closed. If the body of the `with` raises, or the file is
        never closed, nothing is staged.
        """
        if "b" not in mode:
            kwargs.setdefault("encoding", "utf-8")
        if "r" in mode:
            file = super().open(path, mode, block_size, cache_options, compression, **kwargs)
            return cast("IO[Any]", file)
        if compression is not None:
            raise InvalidInputError(
                "files are stored without compression: compress the data before you write it"
            )
        text = {name: kwargs.pop(name) for name in _TEXT_OPTIONS & kwargs.keys()}
        binary = f"{mode.replace('t', '').replace('b', '')}b"
        writer: ObjectWriter = super().open(path, binary, **kwargs)
        return writer if "b" in mode else ObjectTextWriter(writer, **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        if mode == "rb":
            return self._read(path, block_size, cache_options=cache_options, **kwargs)
        if mode == "ab":
            raise NotImplementedError(
                f"cannot append to {SCHEME}{path}: objects are immutable. Write a new object"
            )
        place = object_uri(SCHEME + path)
        file = cast("ObjectWriter", self.branch(place).open(place.key, mode))
        if not autocommit:
            file.defer()
            self.transaction.waiting.append((place, file))
        return file

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Write a file. With mode "create", only if it does not exist."""
        with self.open(path, "xb" if mode == "create" else "wb") as file:
            file.write(value)

    def put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        gathered: Pairs | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy a file from local disk. Folders are implied by their contents."""
        if gathered is None:
            super().put_file(lpath, rpath, callback=callback, mode=mode, **kwargs)
        elif not os.path.isdir(lpath):  # noqa: PTH112
            gathered.append((lpath, rpath))

    def cp_file(self, path1: str, path2: str, gathered: Pairs | None = None, **kwargs: Any) -> None:
        """Copy an object within a repository by its address. No bytes are copied."""
        pairs: Pairs = [] if gathered is None else gathered
        pairs.append((self._strip_protocol(path1), self._strip_protocol(path2)))
        if gathered is None:
            self._copy(pairs, missing_is_fine=False)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        place = object_uri(SCHEME + self._strip_protocol(path))
        self.branch(place).remove(place.key)

    # --- many files -------------------------------------------------------------------------------

    def pipe(self, path: Any, value: bytes | None = None, **kwargs: Any) -> None:
        """Write files. Files of one branch are staged at once."""
        if isinstance(path, dict) and not self._intrans and not kwargs:
            self._put_all(path.items())
        else:
            super().pipe(path, value, **kwargs)

    def put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy files from local disk. Files of one branch are staged at once."""
        if self._intrans or kwargs:
            super().put(lpath, rpath, recursive, callback, maxdepth, **kwargs)
            return
        pairs: Pairs = []
        super().put(lpath, rpath, recursive, maxdepth=maxdepth, gathered=pairs)
        callback.set_size(len(pairs))
        self._put_all(((there, Path(here)) for here, there in pairs), callback)

    def copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        on_error: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy objects within a repository by their addresses, all of a branch at once."""
        pairs = self._pairs(path1, path2, recursive, maxdepth)
        ignored = on_error == "ignore" or (on_error is None and recursive)
        self._copy(pairs, missing_is_fine=ignored)

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy objects to other paths, then remove the old paths."""
        pairs = self._pairs(path1, path2, recursive, maxdepth)
        if not pairs:
            raise IsADirectoryError(f"{path1!r} is a directory: move it recursively")
        if all(source == dest for source, dest in pairs):
            return
        if {source for source, _ in pairs} & {dest for _, dest in pairs}:
            raise InvalidInputError(f"{path1!r} and {path2!r} overlap: move it elsewhere first")
        for ref, _ in _by_ref(source for source, _ in pairs if self._type(source) == "file"):
            self.branch(ref)
        for ref, keys in _by_ref(self._copy(pairs, missing_is_fine=False)):
            self.branch(ref).remove_many(keys)

    def _pairs(self, path1: Any, path2: Any, recursive: bool, maxdepth: int | None) -> Pairs:
        """Return fsspec's pairs of paths to copy."""
        if isinstance(path2, str) and not self.isdir(path2):
            path1, path2 = self.paired(path1, path2)
        pairs: Pairs = []
        super().copy(path1, path2, recursive, maxdepth, "raise", gathered=pairs)
        return pairs

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files, and directories with `recursive`."""
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        whole = recursive and maxdepth is None
        names = self.expand_path(path, recursive and not whole, maxdepth)
        # The kind decides for matches of patterns. A path named by the caller may be both
        # kinds.
        explicit = {self._strip_protocol(stringify_path(each)) for each in paths}
        files, folders = [], []
        for name in names:
            kind = self.info(name)["type"]
            if kind == "file":
                files.append(name)
            elif not recursive:
                raise IsADirectoryError(f"{name!r} is a directory: remove it recursively")
            if whole and (kind == "directory" or name in explicit):
                folders.append(name)
        self._remove(files, folders)

    def _remove(self, files: Sequence[str], folders: Sequence[str]) -> None:
        places = [prefix_uri(SCHEME + each) for each in folders]
        below = [(self.branch(each), f"{each.key}/" if each.key else "") for each in places]
        at = [(self.branch(ref), keys) for ref, keys in _by_ref(files)]
        for branch, keys in at:
            branch.remove_many(keys)
        for branch, prefix in below:
            branch.delete_prefix(prefix)

    def _put_all(
        self, bodies: Iterable[tuple[str, bytes | Path]], callback: Any = DEFAULT_CALLBACK
    ) -> None:
        stripped = ((self._strip_protocol(name), body) for name, body in bodies)
        placed = [(object_uri(SCHEME + name), body) for name, body in stripped]
        branches = {(each.repository, each.ref): self.branch(each) for each, _ in placed}
        for ref, branch in branches.items():
            its = ((each.key, body) for each, body in placed if (each.repository, each.ref) == ref)
            # Links are followed: fsspec or the caller selected the files.
            branch.put_many(callback.wrap(its), follow_links=True)

    def _copy(self, pairs: Pairs, *, missing_is_fine: bool) -> list[str]:
        """Copy objects by pairs of refs; return the copied sources."""
        ways: dict[tuple[str, str, str], tuple[Branch, list[tuple[str, str]]]] = {}
        copied = []
        for source, dest in pairs:
            kind = self._type(source)
            if kind is None and not missing_is_fine:
                raise ObjectNotFoundError(f"nothing exists at {source!r}")
            if kind != "file":
                continue
            old, new = object_uri(SCHEME + source), object_uri(SCHEME + dest)
            way = (same_repository(old, new), old.ref, new.ref)
            if way not in ways:
                ways[way] = self.branch(new), []
            ways[way][1].append((old.key, new.key))
            copied.append(source)
        for (_, ref, _), (branch, keys) in ways.items():
            branch.copy_many(keys, ref)
        return copied


def _by_ref(names: Iterable[str]) -> list[tuple[LakeUri, list[str]]]:
    keys: dict[LakeUri, list[str]] = {}
    for name in names:
        place = object_uri(SCHEME + name)
        keys.setdefault(LakeUri(place.repository, place.ref), []).append(place.key)
    return list(keys.items())
