"""Objects as open files: read in parts, or written and staged on close."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from sparklake._scratch import scratch_folder
from sparklake.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import object_key
from sparklake.stores.objects.content_file import ContentReader
from sparklake.verbs.base.content import CheckedContent, ObjectContent, ReadAhead
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.resolve import open_branch
from sparklake.verbs.base.snapshot import kept_object, stat_object
from sparklake.verbs.objects.stage import Labels, new_object, put_copy

_BUFFERED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class FileMode:
    """The mode of an open file: read (r), write (w) or create (x), as text or bytes."""

    kind: str
    is_text: bool

    @staticmethod
    def of(text: str) -> FileMode:
        """Parse a mode of Python's `open`."""
        kind = text.replace("b", "", 1).replace("t", "", 1)
        if kind not in ("r", "w", "x") or {"b", "t"} <= set(text):
            raise InvalidInputError(
                f"a file cannot be opened in mode {text!r}: choose rb, wb or xb, or r, w or x "
                "for text. Objects are written as a whole, so appending is not possible"
            )
        return FileMode(kind, is_text="b" not in text)


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The options of Python's `open` for text files."""

    encoding: str = "utf-8"
    errors: str | None = None
    newline: str | None = None


def open_to_read(
    context: Context, ref: str, path: str, mode: FileMode, text: TextOptions
) -> IO[Any]:
    """Open an object of a ref, to read parts on demand. A read from start to end is verified."""
    if mode.kind != "r":
        raise InvalidInputError(
            f"{ref!r} is open for reading only: to write, open a file on a branch"
        )
    content = CheckedContent(ObjectContent(kept_object(context, ref, path), ref))
    file = io.BufferedReader(ContentReader(ReadAhead(content), path), _BUFFERED_BYTES)
    return (
        io.TextIOWrapper(file, text.encoding, text.errors, text.newline) if mode.is_text else file
    )


def open_to_write(
    context: Context, branch: str, path: str, mode: FileMode, text: TextOptions, labels: Labels
) -> IO[Any]:
    """Open a new object, to be staged on close."""
    check_can_stage(context, branch, path, exclusive=mode.kind == "x")
    new_object(context, path, 0, "", labels)  # Raises for invalid labels.
    file = ObjectWriter(lambda copy: put_copy(context, branch, path, copy, labels), path)
    return (
        ObjectTextWriter(file, text.encoding, text.errors, text.newline) if mode.is_text else file
    )


def check_can_stage(context: Context, branch: str, path: str, *, exclusive: bool) -> None:
    """Raise staging errors early, and AlreadyExistsError if `exclusive`."""
    object_key(path)
    open_branch(context, branch, Action.STAGE)
    check_namespace(context.store)
    if not exclusive:
        return
    try:
        stat_object(context, branch, path)
    except ObjectNotFoundError:
        return
    raise AlreadyExistsError(f"{branch!r} already has an object {path!r}: choose another path")


class ObjectWriter(io.BufferedWriter):
    """A file on local disk, published on close.

    Nothing is published if the body of its `with` raises, or if it is never closed.
    """

    def __init__(self, publish: Callable[[Path], object], name: str) -> None:
        self._name = name
        self._waits = False
        self._scratch = ExitStack()
        self._publish: Callable[[Path], object] | None = None
        self._file = self._scratch.enter_context(scratch_folder()) / "object"
        super().__init__(io.FileIO(self._file, "w"), _BUFFERED_BYTES)
        self._publish = publish

    @property
    def name(self) -> PurePosixPath:
        """The path of the object.

        Not a string: pandas would open a string as a file name on the local disk.
        """
        return PurePosixPath(self._name)

    @property
    def file(self) -> Path:
        """The path of the file on local disk."""
        return self._file

    @property
    def is_dropped(self) -> bool:
        """Whether `close` can no longer publish the file: it was discarded or published."""
        return self._publish is None

    def defer(self) -> None:
        """Keep the file on close, until `commit` or `discard`."""
        self._waits = True

    def commit(self) -> None:
        """Close and publish the file, deferred or not."""
        self._waits = False
        self.close()

    def close(self) -> None:
        """Publish the file, unless it is already closed or deferred."""
        if self._waits:
            super().close()
            return
        publish, self._publish = self._publish, None
        with self._scratch:
            super().close()
            if publish is not None:
                publish(self._file)

    def discard(self) -> None:
        self._waits, self._publish = False, None
        self.close()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _leave(self, error)

    def __del__(self) -> None:
        """Discard an unclosed file, because it may be incomplete."""
        if self._publish is not None:
            warnings.warn(f"{self._name!r} was never closed and is not staged", ResourceWarning, 2)
            self.discard()


class ObjectTextWriter(io.TextIOWrapper):
    """A text file, published on close like an ObjectWriter."""

    def close(self) -> None:
        """Publish the file, unless it is already closed or its text cannot be flushed."""
        if not self.closed:
            try:
                self.flush()
            except BaseException:
                self.discard()
                raise
        super().close()

    def discard(self) -> None:
        cast("ObjectWriter", self.buffer).discard()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _leave(self, error)

    def __del__(self) -> None:
        """Let the buffer warn about an unclosed file."""


def _leave(file: ObjectWriter | ObjectTextWriter, error: BaseException | None) -> None:
    if error is None:
        file.close()
    else:
        file.discard()
