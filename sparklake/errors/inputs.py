"""Errors of invalid arguments: correct the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.errors.root import SparklakeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class InvalidInputError(SparklakeError, ValueError):
    """An invalid argument. Nothing was read or written."""

    kind = "invalid_input"
    exit_code = 2


class InvalidUriError(InvalidInputError):
    """A URI that is malformed or refers to the wrong kind of thing."""

    kind = "invalid_uri"


class InvalidNameError(InvalidInputError):
    """An invalid name of a repository, branch or tag."""

    kind = "invalid_name"


class InvalidRefError(InvalidInputError):
    """A malformed ref expression."""

    kind = "invalid_ref"


class InvalidKeyError(InvalidInputError):
    """An object key that is empty, too long, not UTF-8 or outside of the root."""

    kind = "invalid_key"


class InvalidRowsError(InvalidInputError):
    """Rows of objects that cannot be staged: a duplicate, a bad size, too much data."""

    kind = "invalid_rows"


class IdempotencyKeyReusedError(InvalidInputError):
    """A once key that was used with another verb or other arguments."""

    kind = "idempotency_key_reused"


class UnsupportedNamesError(InvalidInputError):
    """Objects with names that the destination of an export cannot store.

    `objects` has the first ones, each with the reason. `count` is the number of all.
    """

    kind = "unsupported_names"

    def __init__(
        self, message: str, objects: Sequence[tuple[str, str]] = (), count: int = 0
    ) -> None:
        super().__init__(message)
        self.objects = list(objects)
        self.count = count

    def __reduce__(
        self,
    ) -> tuple[type[UnsupportedNamesError], tuple[str, list[tuple[str, str]], int]]:
        return type(self), (str(self), self.objects, self.count)


class ImportErrorsError(InvalidInputError):
    """Rows of a source that cannot be imported. No branch has moved.

    `counts` is by reason. `errors` is an Arrow table of the first rows. `errors_to` has Parquet
    files of all rows, if it was requested.
    """

    kind = "import_errors"

    def __init__(
        self,
        message: str,
        counts: Mapping[str, int] | None = None,
        errors: object = None,
        errors_to: str | None = None,
    ) -> None:
        super().__init__(message)
        self.counts = dict(counts or {})
        self.errors = errors
        self.errors_to = errors_to

    def __reduce__(self) -> tuple[type[ImportErrorsError], tuple[object, ...]]:
        return type(self), (str(self), self.counts, self.errors, self.errors_to)


class InvalidHooksError(InvalidInputError):
    """A mistake in a hook file, with its place."""

    kind = "invalid_hooks"


class InvalidDumpError(SparklakeError, ValueError):
    """A dump of refs that is inconsistent, or that a repository cannot store."""

    kind = "invalid_dump"
    exit_code = 10
