"""An object store in a local directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from sparklake.errors import InvalidKeyError, MissingFileError, StoreError, StoreUnreachableError
from sparklake.graveler.ports import ContentPart, StoredFolder, StoredObject, StoreTraits, Watch
from sparklake.graveler.times import SECOND
from sparklake.layout import CHECKS_FOLDER, COLLECTIONS_FOLDER, OPEN_CHECKS
from sparklake.stores.objects.key_checks import check_key, check_prefix
from sparklake.stores.objects.local import files as local_files
from sparklake.stores.objects.temporary import ABANDONED_SECONDS

if TYPE_CHECKING:
    from sparklake.stores.objects.local.columns import FileColumns

T = TypeVar("T")

TRAITS = StoreTraits(is_local=True, compresses=False)


@dataclass(frozen=True, slots=True)
class LocalStore:
    """Objects as files. Reads follow symbolic links; writes never leave the root."""

    traits = TRAITS

    root: Path

    @property
    def uri(self) -> str:
        return "file://" + str(self.root).rstrip("/")

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._reading(path), local_files.open_stream(path) as file:
            return file.read()

    def get_part(self, key: str, start: int, stop: int) -> ContentPart:
        return self._opened(key, partial(local_files.read_part, start=start, stop=stop))

    def get_many(self, keys: Sequence[str]) -> Iterator[local_files.LocalFile]:
        """Yield the contents of objects lazily: only requested parts are read."""
        for key in keys:
            yield self._opened(key, local_files.LocalFile)

    def paths(self, keys: Sequence[str]) -> list[str]:
        for key in keys:
            self._check(key)
        return [f"{self.root}/{key}" for key in keys]

    def _opened(self, key: str, opened: Callable[[str], T]) -> T:
        # Lookups of single objects open a file each, and a Path would take as long as opening it.
        self._check(key)
        path = f"{self.root}/{key}"
        try:
            return opened(path)
        except OSError:
            with self._reading(Path(path)):
                raise

    def get_to_file(self, key: str, path: Path) -> None:
        source = self._path(key)
        with self._reading(source):
            if not path.parent.is_dir():
                raise StoreError(
                    f"The directory {path.parent} to copy into does not exist: create it."
                )
            local_files.link_or_copy(source, path)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        return bool(self._publish({key: partial(local_files.write_new, body)}))

    def replace(self, key: str, body: bytes) -> None:
        target = self._path(key)
        with local_files.store_errors(target):
            dirty = self._make_directories({target.parent})
            source = self.root / local_files.TEMPORARY / _new_stem()
            try:
                local_files.write_new(body, source)
                local_files.sync([source])
                source.replace(target)
            finally:
                source.unlink(missing_ok=True)
            local_files.sync(dirty)

    def put_many_if_absent(self, bodies: Mapping[str, bytes]) -> Sequence[str]:
        return self._publish(
            {key: partial(local_files.write_new, body) for key, body in bodies.items()}
        )

    def put_files_if_absent(
        self, files: Mapping[str, Path], watch: Watch | None = None
    ) -> Sequence[str]:
        """Hard-link or copy immutable files, unless their keys exist."""
        return self._publish(
            {key: partial(local_files.link_or_copy, path) for key, path in files.items()}
        )

    def find(self, key: str) -> StoredObject | None:
        path = self._path(key)
        with local_files.store_errors(path):
            try:
                return local_files.stored(key, path.stat())
            except local_files.NO_FILE_ERRORS:
                self._check_root()
                return None

    def checksum(self, key: str) -> str:
        """Return the MD5 of an object's bytes. Listings of files do not include it."""
        path = self._path(key)
        with self._reading(path), local_files.open_stream(path) as file:
            return local_files.stream_md5(file)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield each file once. Links to directories are skipped, or raise if they leave it."""
        check_prefix(prefix)
        self._check_root()
        folder, _, start = prefix.rpartition("/")
        if folder and not _is_key(folder):
            return iter(())
        return local_files.walk(self.root, folder, start)

    def scan(self, prefix: str, *, level: bool = False) -> Iterator[StoredObject | StoredFolder]:
        self._check_root()
        return local_files.scan(self.root, prefix.rstrip("/"), level=level)

    def scan_level(self, prefix: str) -> Iterator[StoredFolder | None]:
        self._check_root()
        return local_files.scan_level(self.root, prefix.rstrip("/"))

    def scan_columns(
        self, prefix: str, *, level: bool = False, exact: bool = False
    ) -> Iterator[FileColumns]:
        self._check_root()
        # It imports numpy and Arrow, which small commands do not need.
        from sparklake.stores.objects.local.columns import scan_columns

        return scan_columns(self.root, prefix.rstrip("/"), level=level, exact=exact)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with local_files.store_errors(path):
            local_files.check_inside(self.root, path.parent)
            try:
                path.unlink()
            except local_files.NO_FILE_ERRORS:
                self._check_root()

    def new_temporary(self) -> str:
        self._check_root()
        folder = self.root / local_files.TEMPORARY
        with local_files.store_errors(folder):
            self._make_directories(())
        return f"{folder}/{_new_stem()}"

    def temporary_files(self) -> Iterator[StoredObject]:
        """Yield the files in the store's folders for temporary files and runs."""
        for folder in self._temporary_folders():
            with local_files.store_errors(folder), suppress(*local_files.NO_FILE_ERRORS):
                yield from _temporary_files(self.root, folder)

    def remove_temporary(self, file: StoredObject) -> None:
        with local_files.store_errors(self.root):
            (self.root / file.key).unlink(missing_ok=True)

    def remove_emptied(self) -> None:
        for folder, _, _ in os.walk(self.root, topdown=False):
            with suppress(OSError):  # Someone writes there.
                Path(folder).rmdir()

    def _temporary_folders(self) -> Iterator[Path]:
        yield self.root / local_files.TEMPORARY
        with local_files.store_errors(self.root):
            yield from self.root.glob(f"{COLLECTIONS_FOLDER}*/{local_files.TEMPORARY}")
            checks = self.root / CHECKS_FOLDER
            for each in checks.glob(f"{OPEN_CHECKS}*"):
                yield from (
                    each / local_files.TEMPORARY,
                    checks / each.name / local_files.TEMPORARY,
                )

    def _publish(self, writers: Mapping[str, Callable[[Path], object]]) -> Sequence[str]:
        """Write missing objects; return their keys. All are durable on return."""
        targets = {self._path(key): key for key in writers}
        if not targets:
            return ()
        with local_files.store_errors(self.root):
            # Folders of existing objects count, too: their writer may not have synced
            # them yet.
            dirty = self._make_directories({each.parent for each in targets})
            _remove_abandoned(self.root / local_files.TEMPORARY)
            new = self._link_new(targets, writers.values())
            local_files.sync(dirty)
        return [targets[each] for each in new]

    def _link_new(
        self, targets: Iterable[Path], writers: Iterable[Callable[[Path], object]]
    ) -> Sequence[Path]:
        # One shared directory: removing a directory takes ext4 longer than everything else.
        stem = _new_stem()
        staged: dict[Path, Path] = {}
        try:
            for number, (target, write) in enumerate(zip(targets, writers, strict=True)):
                if not target.is_file():
                    source = self.root / local_files.TEMPORARY / f"{stem}-{number}"
                    staged[source] = target
                    write(source)
            # Before the links: other processes treat files under the final name as
            # durable.
            local_files.sync(staged)
            return [
                target for source, target in staged.items() if local_files.link_new(source, target)
            ]
        finally:
            for source in staged:
                source.unlink(missing_ok=True)

    def _make_directories(self, folders: Iterable[Path]) -> set[Path]:
        """Create folders inside the root; return the folders to sync."""
        needed = {*folders, self.root / local_files.TEMPORARY}
        for each in needed:
            local_files.check_inside(self.root, each)
        changed = {parent for each in needed for parent in local_files.make_directories(each)}
        return changed | (needed - {self.root / local_files.TEMPORARY})

    def _path(self, key: str) -> Path:
        self._check(key)
        return self.root / key

    def _check(self, key: str) -> None:
        check_key(key)
        if not _is_key(key):
            raise InvalidKeyError(
                f"The object key {key!r} has an empty part, or {local_files.TEMPORARY!r}, which is "
                "reserved: use another key."
            )

    def _check_root(self) -> None:
        with local_files.store_errors(self.root):
            is_there = self.root.is_dir()
        if not is_there:
            raise StoreUnreachableError.of_missing(
                f"The directory {self.root} does not exist: correct the path, or mount its disk."
            )

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        with local_files.store_errors(path):
            try:
                yield
            except IsADirectoryError as error:
                raise MissingFileError(
                    f"The object {path} was replaced with a directory outside the lake: move the "
                    "directory away, and put the file back."
                ) from error
            except local_files.NO_FILE_ERRORS as error:
                self._check_root()
                raise MissingFileError(
                    f"The object {path} does not exist: it was moved or deleted outside the "
                    "lake; restore it from a backup."
                ) from error


def _new_stem() -> str:
    return f"{int(time.time())}-{uuid4().hex}"


def _is_key(text: str) -> bool:
    parts = text.split("/")
    return "" not in parts and local_files.TEMPORARY not in parts


def _temporary_files(root: Path, folder: Path) -> Iterator[StoredObject]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(*local_files.NO_FILE_ERRORS):
                status = entry.stat(follow_symlinks=False)
                start = entry.name.partition("-")[0]
                # Not by file times: a hard link has the times of its source.
                time_ns = int(start) * SECOND if start.isdigit() else status.st_mtime_ns
                key = f"{folder.relative_to(root).as_posix()}/{entry.name}"
                yield StoredObject(key, status.st_size, time_ns)


def _remove_abandoned(folder: Path) -> None:
    """Remove old temporary files, by the start times in their names."""
    oldest = time.time() - ABANDONED_SECONDS
    with os.scandir(folder) as entries:
        for entry in entries:
            # Not by file times: a hard link has the times of its source.
            start = entry.name.partition("-")[0]
            if start.isdigit() and int(start) < oldest:
                Path(entry.path).unlink(missing_ok=True)
