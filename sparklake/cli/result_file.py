"""The JSON result of a command in a file, published when complete."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EBADF, EEXIST
from fcntl import F_GETFL, fcntl
from io import StringIO
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from sparklake.documents import Document, json_line, json_list
from sparklake.errors import InvalidInputError

_NOTHING = "null\n"


class ResultFile:
    """A file with the JSON of one result, a listing or an error.

    It is renamed at the end, so a killed command leaves no partial result. An older file is deleted
    at the start. Only the first result counts. A stream (`-`, `/dev/fd/3`) receives it at the end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.parent / f"{path.name[:40]}.{uuid4().hex}.part"
        self._descriptor = _descriptor(str(path))
        self._has_result = False
        self._is_partial = False
        self._file = self._opened()

    def _opened(self) -> TextIO:
        with _refusals(self._path):
            if self._descriptor is not None:
                _check_writable(self._descriptor)
                return StringIO()
            delete_older(self._path)
            # Exclusive creation follows no link.
            return self._part.open("x", encoding="utf-8")

    def one(self, document: Document) -> None:
        if not self._has_result:
            self._has_result = True
            self._file.write(json_line(document))

    def listing(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Write a listing while its documents stream through."""
        if self._has_result:
            yield from documents
            return
        passing: list[Document] = []

        def noted() -> Iterator[Document]:
            for each in documents:
                passing.append(each)
                yield each

        self._has_result = self._is_partial = True
        for text in json_list(noted()):
            self._file.write(text)
            yield from passing
            passing.clear()
        self._is_partial = False

    def fail(self, document: Document) -> None:
        """Replace the content with an error document, and publish it."""
        if not self._file.closed:
            self._file.seek(0)
            self._file.truncate()
            self._has_result = self._is_partial = False
            self.one(document)
            self.publish()

    def publish(self) -> None:
        """Rename the file to its final name. An incomplete listing is discarded."""
        if self._is_partial:
            self.discard()
        elif not self._file.closed:
            if not self._has_result:
                self._file.write(_NOTHING)
            if isinstance(self._file, StringIO) and self._descriptor is not None:
                _send(self._file.getvalue(), self._descriptor)
            self._file.close()
            if self._descriptor is None:
                self._part.replace(self._path)

    def discard(self) -> None:
        if not self._file.closed:
            self._file.close()
            if self._descriptor is None:
                self._part.unlink(missing_ok=True)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"the result file {path} cannot be written: {error.strerror or error}. "
            "Nothing was done. Choose a file in an existing folder"
        ) from error


def delete_older(path: Path) -> None:
    """Delete a regular file; reject a link, FIFO, device or folder."""
    with _refusals(path), suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise FileExistsError(EEXIST, "it exists and is not a regular file")
        path.unlink()


def _check_writable(descriptor: int) -> None:
    if fcntl(descriptor, F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(EBADF, "it is open for reading only")


def _descriptor(path: str) -> int | None:
    number = path.removeprefix("/dev/fd/")
    standard = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
    is_number = number != path and number.isdecimal() and len(number) < 9
    return int(number) if is_number else standard.get(path)


def _send(text: str, descriptor: int) -> None:
    standard = {1: sys.stdout, 2: sys.stderr}.get(descriptor)
    if standard is not None:
        standard.write(text)
        standard.flush()
    else:
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as stream:
            stream.write(text)
