"""Errors of the systems below: object store, engines, Postgres."""

from __future__ import annotations

from sparklake.errors.root import SparklakeError


class StoreError(SparklakeError, OSError):
    """A failure of the object store."""

    kind = "store"
    exit_code = 12


class StoreUnreachableError(StoreError):
    """A bucket or directory that is unreachable or does not exist.

    `is_missing` is set if it is known not to exist.
    """

    kind = "store_unreachable"
    is_missing = False

    @classmethod
    def of_missing(cls, message: str) -> StoreUnreachableError:
        """Return the error of a bucket or directory that does not exist."""
        error = cls(message)
        error.is_missing = True
        return error


class StorePermissionError(StoreError, PermissionError):
    """An object store that refuses the credentials."""

    kind = "store_permission"
    exit_code = 11


class ReadOnlyNamespaceError(StorePermissionError):
    """A namespace without write permission for a verb that must write. Nothing was done."""

    kind = "read_only_namespace"


class MissingFileError(StoreError):
    """A file of the lake that is missing from the object store.

    It is not a FileNotFoundError, which callers often treat as an answer instead of a loss.
    """

    kind = "missing_file"
    exit_code = 10


class PurgedError(MissingFileError):
    """An object whose bytes were purged from all history.

    `purge_id`, `who` and `date` identify the purge. `date` is in unix seconds.
    """

    kind = "purged"

    def __init__(self, message: str, purge_id: str = "", who: str = "", date: int = 0) -> None:
        super().__init__(message)
        self.purge_id = purge_id
        self.who = who
        self.date = date

    def __reduce__(self) -> tuple[type[PurgedError], tuple[str, str, str, int]]:
        return type(self), (str(self), self.purge_id, self.who, self.date)


class CorruptFileError(StoreError):
    """A file of the lake whose contents do not match its name."""

    kind = "corrupt_file"
    exit_code = 10


class LostResultError(SparklakeError, RuntimeError):
    """A task result that the engine lost."""

    kind = "lost_result"
    exit_code = 12


class RefStoreUnavailableError(SparklakeError, ConnectionError):
    """A Postgres of the refs that cannot be used."""

    kind = "ref_store_unavailable"
    exit_code = 12
    has_lines = True


class LockHeldError(RefStoreUnavailableError):
    """A lock in Postgres that another session does not release. Nothing was changed."""

    kind = "lock_held"


class RefsLostError(SparklakeError):
    """A ref store that has lost commits or refs. Nothing was done."""

    kind = "refs_lost"
    exit_code = 10
