"""The JSON result of a command in a file, which appears when it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from sparklake.documents import Document, json_line, json_list
from sparklake.errors import InvalidInputError

_NOTHING = "null\n"


class ResultFile:
    """A file with the JSON of one result, of a listing, or of an error.

    It is written under another name and renamed at the end, so a killed command leaves no part of
    a result. An older file is deleted at the start. Only the first result of a command is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        self._has_result = False
        self._is_partial = False
        self._file = self._opened()

    def _opened(self) -> TextIO:
        try:
            self._path.unlink(missing_ok=True)
            return self._part.open("w", encoding="utf-8")
        except OSError as error:
            raise InvalidInputError(
                f"the result file {self._path} cannot be written: {error.strerror or error}. "
                "Nothing was done. Name a file in a folder that exists"
            ) from error

    def one(self, document: Document) -> None:
        """Write one result."""
        if not self._has_result:
            self._has_result = True
            self._file.write(json_line(document))

    def listing(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Write a listing while its documents pass through."""
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
        """Replace the content by the document of an error, and publish it."""
        if not self._file.closed:
            self._file.seek(0)
            self._file.truncate()
            self._has_result = self._is_partial = False
            self.one(document)
            self.publish()

    def publish(self) -> None:
        """Give the file its name. Its content is null if there was no result.

        A listing that was not read to its end is discarded.
        """
        if self._is_partial:
            self.discard()
        elif not self._file.closed:
            if not self._has_result:
                self._file.write(_NOTHING)
            self._file.close()
            self._part.replace(self._path)

    def discard(self) -> None:
        """Delete what was written, if it is not published."""
        if not self._file.closed:
            self._file.close()
            self._part.unlink(missing_ok=True)
