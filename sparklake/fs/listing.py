"""Listings of repositories, refs and paths in fsspec's format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from fsspec.core import has_magic
from fsspec.spec import AbstractFileSystem

from sparklake.errors import (
    InvalidKeyError,
    InvalidNameError,
    InvalidRefError,
    InvalidUriError,
    ObjectNotFoundError,
)
from sparklake.fs.lakes import LakeOptions
from sparklake.graveler.times import datetime_of_nanoseconds
from sparklake.lake import Lake
from sparklake.repository import Repository
from sparklake.rows.objects import ObjectInfo
from sparklake.uri import SCHEME, LakeUri, parse_uri
from sparklake.verbs.objects.list import Folder

Info = dict[str, Any]


def parsed_path(path: str) -> LakeUri | None:
    """Return a parsed path without protocol, None for the root."""
    return parse_uri(SCHEME + path) if path else None


def path_of(place: LakeUri) -> str:
    """Return the path without its protocol."""
    return str(place).removeprefix(SCHEME)


def directory(path: str) -> Info:
    """Return the info of a directory. It exists as long as it has contents."""
    return {"name": path, "size": 0, "type": "directory"}


def file_info(path: str, info: ObjectInfo) -> Info:
    """Return the info of an object."""
    return {
        "name": path,
        "size": info.size,
        "type": "file",
        "mtime": datetime_of_nanoseconds(info.mtime),
        "checksum": info.checksum,
        "content_type": info.content_type,
        "metadata": info.metadata,
    }


def entries(root: str, objects: Iterable[ObjectInfo | Folder]) -> Iterator[Info]:
    """Yield the infos of one level below the ref `root`, except keys with a final slash."""
    for each in objects:
        if isinstance(each, Folder):
            yield directory(f"{root}/{each.path[:-1]}")
        elif not each.path.endswith("/"):
            yield file_info(f"{root}/{each.path}", each)


def directories_above(path: str, top: str) -> Iterator[str]:
    """Yield the parent directories of a file, nearest first, up to and including `top`."""
    while len(path) > len(top) and "/" in path:
        path = path.rpartition("/")[0]
        yield path


@contextmanager
def nothing_there(path: str) -> Iterator[None]:
    """Raise ObjectNotFoundError for impossible names."""
    try:
        yield
    except (InvalidUriError, InvalidNameError, InvalidRefError, InvalidKeyError) as error:
        raise ObjectNotFoundError(f"nothing exists at {path!r}: {error}") from error


class ListingFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The listings of lakes. Listings are never cached."""

    protocol = "lakefs"
    root_marker = ""

    def __init__(self, lake: Lake | None, options: LakeOptions, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._given = lake
        self._options = options
        self._opened: tuple[int, Lake] | None = None
        self._repositories: dict[str, Repository] = {}

    @property
    def lake(self) -> Lake:
        """The lake, opened on first use, and again in a forked child."""
        if self._given is not None:
            return self._given
        if self._opened is None or self._opened[0] != os.getpid():
            self._repositories = {}
            self._opened = os.getpid(), self._options.open()
        return self._opened[1]

    def repository(self, name: str) -> Repository:
        """Return the current repository, with the caches of an unchanged one."""
        current, cached = self.lake.repository(name), self._repositories.get(name)
        if cached is None or cached.info != current.info:
            cached = self._repositories[name] = current
        return cached

    # --- listings ---------------------------------------------------------------------------------

    def info(self, path: str, **kwargs: Any) -> Info:
        """Return the info of a file or a directory."""
        path = self._strip_protocol(path)
        with nothing_there(path):
            place = parsed_path(path)
            if place is None:
                return directory("")
            repository = self.repository(place.repository)
            if place.ref is None:
                return directory(path)
            if not place.key:
                repository.resolve(place.ref.removesuffix("$"))
                return directory(path)
            try:
                return file_info(path, repository.stat(place.ref, place.key))
            except ObjectNotFoundError:
                if next(repository.folder(place.ref, f"{place.key}/"), None) is None:
                    raise
        return directory(path)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """Return a directory's contents: repositories, branches and tags, or objects."""
        path = self._strip_protocol(path)
        with nothing_there(path):
            infos = list(self._level(path, parsed_path(path)))
        return infos if detail else [each["name"] for each in infos]

    def _level(self, path: str, place: LakeUri | None) -> Iterator[Info]:
        if place is None:
            yield from (directory(each.name) for each in self.lake.repositories())
            return
        repository = self.repository(place.repository)
        if place.ref is None:
            branches = [each.name for each in repository.branch_states()]
            names = sorted([*branches, *(each.name for each in repository.tags())])
            yield from (directory(f"{path}/{name}") for name in names)
            return
        root = path_of(LakeUri(place.repository, place.ref))
        prefix = f"{place.key}/" if place.key else ""
        infos = list(entries(root, repository.folder(place.ref, prefix)))
        yield from infos
        if not infos and prefix and (info := self.info(path))["type"] == "file":
            yield info

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return all files below a directory, with one listing if `maxdepth` is None."""
        path = self._strip_protocol(path)
        try:
            with nothing_there(path):
                place = parsed_path(path)
                if maxdepth is None and place is not None and place.ref is not None:
                    infos = self._below(path, place, withdirs=withdirs)
                else:
                    return super().find(path, maxdepth, withdirs, detail, **kwargs)
        except FileNotFoundError:
            infos = {}
        if not infos and self.isfile(path):
            infos = {path: self.info(path)}
        return {name: infos[name] for name in sorted(infos)} if detail else sorted(infos)

    def _below(self, path: str, place: LakeUri, *, withdirs: bool) -> dict[str, Info]:
        ref = cast("str", place.ref)
        root = path_of(LakeUri(place.repository, ref))
        prefix = f"{place.key}/" if place.key else ""
        objects = self.repository(place.repository).objects(ref, prefix)
        infos = {each["name"]: each for each in entries(root, objects)}
        if withdirs:
            above = {name for each in infos for name in directories_above(each, path)}
            infos = {name: directory(name) for name in above} | infos
        return infos

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: str | Callable[[OSError], object] = "omit",
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Walk a directory. Missing directories are omitted. Other errors are raised."""
        on_walk_error = _raise_unless_missing if on_error == "omit" else on_error
        return cast("Iterator[Any]", super().walk(path, maxdepth, topdown, on_walk_error, **kwargs))

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Return whether a file or directory exists. Store errors are raised."""
        return self._type(path) is not None

    def isfile(self, path: str) -> bool:
        """Return whether a file exists. Store errors are raised."""
        return self._type(path) == "file"

    def isdir(self, path: str) -> bool:
        """Return whether a directory exists. Store errors are raised."""
        return self._type(path) == "directory"

    def _type(self, path: str) -> str | None:
        try:
            return cast("str", self.info(path)["type"])
        except FileNotFoundError:
            return None

    def created(self, path: str) -> datetime:
        """Return when an object was written, as `modified`."""
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        """Return when an object was written."""
        info = self.info(path)
        if info["type"] != "file":
            raise IsADirectoryError(f"{path!r} is a directory and has no time")
        return cast("datetime", info["mtime"])

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return the bytes of the files below a directory, in total or for each."""
        infos = self.find(path, maxdepth, withdirs, detail=True, **kwargs)
        sizes = {name: info["size"] for name, info in infos.items()}
        return sum(sizes.values()) if total else sizes

    def paired(self, source: Any, dest: str) -> tuple[Any, Any]:
        """Return both as lists if `source` is an existing file whose name looks like a pattern."""
        if not isinstance(source, str) or not has_magic(source) or dest.endswith("/"):
            return source, dest
        return ([source], [dest]) if self.isfile(source) else (source, dest)

    def expand_path(
        self,
        path: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        assume_literal: bool = False,
        **kwargs: Any,
    ) -> list[str]:
        """Return the paths matching patterns. An existing path is not a pattern.

        Raises FileNotFoundError without a match.
        """
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        matches: set[str] = set()
        for each in paths:
            name = self._strip_protocol(each)
            literal = assume_literal or (has_magic(name) and self.exists(name))
            try:
                matches.update(super().expand_path([each], recursive, maxdepth, literal, **kwargs))
            except FileNotFoundError:
                continue
        if not matches:
            raise ObjectNotFoundError(f"nothing exists at {path!r}")
        return sorted(matches)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
