"""Copies to a local directory."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from sparklake.errors import InvalidKeyError, MissingFileError
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects.destinations import CHUNK_BYTES, ExpectedObject
from sparklake.stores.objects.local import files
from sparklake.stores.objects.local.store import LocalStore

_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 4095


@dataclass(frozen=True, slots=True)
class LocalDestination:
    """A directory of separate files, never of links into the lake."""

    has_folders = True

    root: Path
    _dirty: set[Path] = field(default_factory=set)

    @property
    def uri(self) -> str:
        return f"file://{self.root}"

    def unsupported_reason(self, key: str) -> str:
        parts = key.split("/")
        if "" in parts or "." in parts or ".." in parts:
            return "has an empty part, or '.'"
        if files.TEMPORARY in parts:
            return f"has the reserved part {files.TEMPORARY!r}"
        if any(len(each.encode()) > _MAX_NAME_BYTES for each in parts):
            return f"has a part of more than {_MAX_NAME_BYTES} bytes"
        if len(os.fsencode(self.root / key)) > _MAX_PATH_BYTES:
            return f"makes a path of more than {_MAX_PATH_BYTES} bytes"
        return ""

    def copy(self, key: str, expected: ExpectedObject, store: ObjectStore, source: str) -> None:
        """Copy an object to a temporary name, verify it and rename it."""
        with self._replacing(key) as temporary:
            copy_verified(temporary, expected, store, source)

    def put(self, key: str, body: bytes) -> None:
        with self._replacing(key) as temporary:
            temporary.write_bytes(body)

    def remove(self, key: str) -> None:
        path = self.root / key
        with files.store_errors(path):
            files.check_inside(self.root, path.parent)
            with suppress(*files.NO_FILE_ERRORS):
                path.unlink()
            for each in path.parents:
                if each == self.root:
                    break
                try:
                    each.rmdir()
                except FileNotFoundError:
                    continue
                except OSError:
                    break
                self._dirty.add(each.parent)

    def settle(self) -> None:
        """Make the entries of folders durable. The files are durable already."""
        folders = [each for each in self._dirty if each.is_dir()]
        self._dirty.clear()
        with files.store_errors(self.root):
            files.sync(folders)

    def tidy(self) -> None:
        shutil.rmtree(self.root / files.TEMPORARY, ignore_errors=True)

    @contextmanager
    def _replacing(self, key: str) -> Iterator[Path]:
        """Yield a temporary file, and replace the target with it on success."""
        temporary = self.root / files.TEMPORARY / uuid4().hex
        target = self.root / key
        try:
            with files.store_errors(temporary):
                files.make_directories(temporary.parent)
                yield temporary
            with files.store_errors(target):
                files.sync([temporary])
                self._publish(temporary, target)
        finally:
            with suppress(*files.NO_FILE_ERRORS):
                temporary.unlink()

    def _publish(self, temporary: Path, target: Path) -> None:
        files.check_inside(self.root, target.parent)
        try:
            self._dirty.update(files.make_directories(target.parent))
            temporary.replace(target)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise InvalidKeyError(
                f"{target} cannot be written: a file exists at the path of a folder, or a "
                "folder at the path of a file"
            ) from error
        self._dirty.add(target.parent)


def copy_verified(path: Path, expected: ExpectedObject, store: ObjectStore, source: str) -> None:
    """Copy an object of a store to a new local file, and verify the copy."""
    if isinstance(store, LocalStore):
        expected.check(*_copied(store.root / source, path, expected), lambda: None)
        return
    try:
        store.get_to_file(source, path)
    except MissingFileError as error:
        raise expected.missing() from error
    with path.open("rb") as file:
        expected.check(*_measured(file), lambda: store.find(source))


def _copied(source: Path, target: Path, expected: ExpectedObject) -> tuple[int, str]:
    with files.store_errors(source), target.open("wb") as copy:
        try:
            file = files.open_stream(source)
        except files.NO_FILE_ERRORS as error:
            raise expected.missing() from error
        with file:
            return _measured(file, copy.write)


def _measured(file: BinaryIO, copy: Callable[[bytes], object] = len) -> tuple[int, str]:
    digest, size = hashlib.md5(usedforsecurity=False), 0
    for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
        digest.update(chunk)
        copy(chunk)
        size += len(chunk)
    return size, digest.hexdigest()
