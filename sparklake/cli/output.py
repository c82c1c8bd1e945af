"""The only writer to stdout and stderr: text for people, JSON for programs."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from sparklake.cli.options import Format
from sparklake.cli.pager import Pager, pager_command
from sparklake.cli.progress import Meter
from sparklake.cli.text import rendered_table
from sparklake.documents import Document, error_document, json_line, json_list, json_object
from sparklake.errors import InterruptError, InvalidInputError, SparklakeError
from sparklake.visible import visible_line, visible_text

if TYPE_CHECKING:
    from sparklake.cli.result_file import ResultFile
    from sparklake.verbs.base.once import VerbResult

_MIN_WIDTH = 20
_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "dim": 2}


class OutputClosedError(Exception):
    """A closed stdout, such as after `| head`."""


class Output:
    def __init__(self, form: Format, *, is_attended: bool = True) -> None:
        self._form = form
        self._has_colour = form is Format.TEXT and _takes_colour(sys.stdout)
        self._has_begun = False
        # A job's result is one line of a log.
        self._has_lines = form is Format.JSONL or not is_attended
        self._is_attended = is_attended and not self.is_json
        # Progress would mix with output on a terminal or a pager, but not with output to a file.
        self._hides_meter = not _is_file(sys.stdout)
        self.meter = Meter()
        self._run: VerbResult[Any] | None = None
        self._shows_change = False
        self._file: ResultFile | None = None
        self._pager_command: str | None = None
        self._pager: Pager | None = None

    def page(self) -> None:
        """Page the following text if stdout is a terminal."""
        if not self.is_json and sys.stdout.isatty():
            self._pager_command = pager_command()

    @property
    def is_paged(self) -> bool:
        return self._pager is not None

    def _close_pager(self) -> None:
        if self._pager is not None:
            self._pager.close()
            self._pager = None

    def save_to(self, path: Path | None) -> None:
        if path is not None:
            # Lazy import: few commands have a file.
            from sparklake.cli.result_file import ResultFile

            self._file = ResultFile(path)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Publish the result file at the end of a command, or discard it after a crash."""
        try:
            try:
                yield
            finally:
                self._close_pager()
        except typer.Exit:
            self._publish()
            raise
        except BaseException:
            if self._file is not None:
                self._file.discard()
            raise
        self._publish()

    def _publish(self) -> None:
        if self._file is not None:
            self._file.publish()

    @property
    def is_json(self) -> bool:
        return self._form is not Format.TEXT

    def one(self, document: Document, text: str) -> None:
        result = self._noted(document)
        if self._file is not None:
            self._file.one(result)
        self.write(self._object(result) if self.is_json else f"{text}\n")
        self._note_no_change()

    def many(self, documents: Iterable[Document], line: Callable[[Document], str]) -> None:
        lines: Iterable[str]
        results: Iterable[Document] = map(self._noted, documents)
        if self._file is not None:
            results = self._file.listing(results)
        if self._form is Format.JSONL:
            lines = map(json_line, results)
        elif self.is_json:
            lines = json_list(results)
        else:
            lines = (f"{line(document)}\n" for document in results)
        for each in lines:
            self.write(each)
        self._note_no_change()

    def report_run(self, run: VerbResult[Any], *, shows_change: bool) -> None:
        self._run, self._shows_change = run, shows_change

    def _noted(self, document: Document) -> Document:
        if self._run is None:
            return document
        changed = {"changed": self._run.changed} if self._shows_change else {}
        return {**document, **changed, **({"repeated": True} if self._run.repeated else {})}

    def _note_no_change(self) -> None:
        if self._run is None:
            return
        if self._run.repeated:
            self.note("this ran before with the same key: nothing was changed now")
        elif self._shows_change and not self._run.changed:
            self.note("there was nothing to do: nothing was changed")

    def table(
        self, documents: Sequence[Document], columns: Mapping[str, Callable[[Document], str]]
    ) -> None:
        """Print a short listing; in text as a table with these columns."""
        if self.is_json:
            self.many(documents, str)
        else:
            if self._file is not None:
                documents = list(self._file.listing(documents))
            rows = [[cell(document) for cell in columns.values()] for document in documents]
            self.write(rendered_table(list(columns), rows, has_colour=self._has_colour))

    def note(self, text: str) -> None:
        if not self.is_json:
            # Beside a pager, the remark would disturb the screen.
            stream = sys.stderr if self._pager is None else sys.stdout
            with _until_closed():
                print(visible_text(text), file=stream)

    @property
    def can_ask(self) -> bool:
        return self._is_attended and sys.stdin.isatty() and sys.stdout.isatty()

    def confirm(self, loss: str, question: str) -> None:
        """Report what will be lost and ask for confirmation; fail without a terminal."""
        if not self.can_ask:
            raise InvalidInputError(
                f"{loss} Nothing was changed: cannot ask for confirmation without a terminal; pass "
                "--yes to confirm"
            )
        with suppress(typer.Abort):
            if self.agrees(f"{loss} {question}"):
                return
        raise InterruptError("not confirmed: nothing was changed")

    def agrees(self, question: str) -> bool:
        return typer.confirm(visible_text(question))

    def fail(self, error: SparklakeError) -> None:
        """Print an error; as JSON on the stream for programs."""
        self._close_pager()
        if self._file is not None:
            self._file.fail(error_document(error))
        if not self.is_json:
            label = _painted("error:", "red") if _takes_colour(sys.stderr) else "error:"
            print(f"{label} {error}", file=sys.stderr)  # noqa: T201
        elif self._has_begun:
            # The list stays without its end, so nobody takes it for complete.
            print(self._object(error_document(error)), end="", file=sys.stderr)  # noqa: T201
        else:
            self.write(self._object(error_document(error)))

    def _object(self, document: Document) -> str:
        return json_line(document) if self._has_lines else f"{json_object(document)}\n"

    def coloured(self, text: str, colour: str) -> str:
        return _painted(text, colour) if colour and self._has_colour else text

    def wrapped(self, line: str, indent: int) -> list[str]:
        """Split a line so that it fits on a terminal after an indent."""
        if not sys.stdout.isatty():
            return [line]
        width = max(_MIN_WIDTH, shutil.get_terminal_size().columns - indent)
        return textwrap.wrap(line, width) or [line]

    def write(self, text: str) -> None:
        self._has_begun = True
        if self._hides_meter:
            self.meter.hide()
        if self._pager_command is not None:
            self._pager, self._pager_command = Pager(self._pager_command), None
        with _until_closed():
            sys.stdout.write(text)

    def write_bytes(self, body: bytes) -> None:
        self._has_begun = True
        with _until_closed():
            sys.stdout.flush()
            sys.stdout.buffer.write(body)

    def flush(self) -> None:
        with _until_closed():
            sys.stdout.flush()

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show progress on a terminal until the block ends or prints a result."""
        if not (self._is_attended and sys.stderr.isatty()):
            yield
            return
        with self.meter.showing(visible_line(text)):
            yield


@contextmanager
def _until_closed() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosedError from error


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # a stream in memory
        return False


def _takes_colour(stream: TextIO) -> bool:
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not unwanted


def _painted(text: str, colour: str) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"
