"""The read side of the file system. Only requested parts of files are read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import isfilelike

from sparklake.errors import CorruptFileError, InvalidKeyError, ObjectNotFoundError
from sparklake.fs.listing import ListingFileSystem, file_info, nothing_there, parsed_path
from sparklake.graveler.keys import is_file_name
from sparklake.interrupts import Threads
from sparklake.verbs.base.content import AHEAD_BYTES, CheckedContent, ObjectContent, ReadAhead

_GET_THREADS = 8


class ReadingFileSystem(ListingFileSystem):
    """Reads of files at any ref."""

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Return the bytes of a file, verified, or only those between two positions."""
        return CheckedContent(self.content(path))[start:end]

    def content(self, path: str) -> ObjectContent:
        """Return the current content of a file."""
        path = self._strip_protocol(path)
        with nothing_there(path):
            place = parsed_path(path)
            if place is None or place.ref is None or not place.key:
                raise ObjectNotFoundError(f"{path!r} is a directory, not an object")
            info = self.repository(place.repository).stat(
                place.ref, place.key, require_readable=True
            )
            return ObjectContent(info, place.ref)

    def get_file(
        self,
        rpath: str,
        lpath: Any = None,
        callback: Any = DEFAULT_CALLBACK,
        outfile: Any = None,
        gathered: list[tuple[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy a file to local disk; create a folder for a directory.

        A file that turns out to be damaged at its end is deleted.
        """
        if gathered is not None:
            _check_local_name(rpath, lpath)
            gathered.append((rpath, lpath))
            return
        try:
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **kwargs)
        except CorruptFileError:
            if outfile is None and not isfilelike(lpath):
                Path(lpath).unlink(missing_ok=True)
            raise

    def get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Copy files to local disk, several at a time."""
        if isinstance(lpath, str) and not Path(lpath).is_dir():
            rpath, lpath = self.paired(rpath, lpath)
        pairs: list[tuple[str, Any]] = []
        super().get(rpath, lpath, recursive, maxdepth=maxdepth, gathered=pairs, **kwargs)
        callback.set_size(len(pairs))
        with Threads(_GET_THREADS, "sparklake-get") as threads:
            waiting = [threads.submit(self.get_file, *pair) for pair in pairs]
            for each in callback.wrap(waiting):
                each.result()

    def _read(self, path: str, block_size: int | None, **kwargs: Any) -> LakeFile:
        content = self.content(path)
        options = {name: kwargs[name] for name in ("cache_type", "cache_options") if name in kwargs}
        return LakeFile(self, path, content, block_size or AHEAD_BYTES, **options)


class LakeFile(AbstractBufferedFile):  # type: ignore[misc]
    """An object as of its opening. Sequential reads use blocks.

    fsspec's caches, which read more than requested, are available as options.
    """

    def __init__(
        self,
        fs: ReadingFileSystem,
        path: str,
        content: ObjectContent,
        block_size: int,
        cache_type: str = "none",
        cache_options: dict[str, Any] | None = None,
    ) -> None:
        checked = CheckedContent(content)
        self._ahead = ReadAhead(checked, block_size if cache_type == "none" else 0)
        self._content = content
        self._details = file_info(path, content.info)
        super().__init__(
            fs,
            path,
            "rb",
            block_size,
            cache_type=cache_type,
            cache_options=cache_options,
            size=len(content),
        )

    def __reduce__(self) -> tuple[Callable[..., LakeFile], tuple[Any, ...]]:
        parts = (self.fs, self.path, self._content, self.blocksize, self.cache.name, self.loc)
        return _reopened, parts

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._ahead[start:end]


def _check_local_name(rpath: str, lpath: Any) -> None:
    """Raise InvalidKeyError for an unsafe local name from a key.

    Only the end of the name is from the key. The user chose the rest.
    """
    place = parsed_path(rpath)
    if place is None or not place.key or not isinstance(lpath, (str, Path)):
        return
    pairs = zip(reversed(place.key.split("/")), reversed(str(lpath).split("/")), strict=False)
    common = [part for part, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    if not is_file_name("/".join(reversed(common)) or "-", has_folders=True):
        raise InvalidKeyError(
            f"{rpath!r} cannot be the name of a local file: specify the file to write, or use "
            "`sparklake export`, which escapes such names"
        )


def _reopened(
    fs: ReadingFileSystem,
    path: str,
    content: ObjectContent,
    block_size: int,
    cache_type: str,
    at: int,
) -> LakeFile:
    file = LakeFile(fs, path, content, block_size, cache_type=cache_type)
    file.seek(at)
    return file
