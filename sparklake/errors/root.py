"""The base class of all errors, and errors of the installation and the user."""

from __future__ import annotations

from typing import ClassVar

from sparklake.visible import visible_line, visible_text


class SparklakeError(Exception):
    """The base class of sparklake's errors.

    Its text is one line without control characters, even if names contain some. With
    `has_lines` it quotes the output of another program, and keeps line ends and tabs.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    has_lines: ClassVar[bool] = False

    def __str__(self) -> str:
        text = super().__str__()
        return visible_text(text) if self.has_lines else visible_line(text)


class MissingDependencyError(SparklakeError, ImportError):
    """An optional package that is not installed, with the extra that installs it."""

    kind = "missing_dependency"
    exit_code = 15


class InterruptError(SparklakeError):
    """An interruption by the user, like SIGINT in a shell."""

    kind = "interrupted"
    exit_code = 130

    def __init__(
        self,
        message: str = "interrupted; unfinished work has changed no branch. Run the command again",
    ) -> None:
        super().__init__(message)
