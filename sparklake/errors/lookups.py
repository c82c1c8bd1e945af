"""Errors of names that do not exist, exist already, or are protected."""

from __future__ import annotations

from sparklake.errors.root import SparklakeError


class NotFoundError(SparklakeError, LookupError):
    """A named thing that does not exist."""

    kind = "not_found"
    exit_code = 13


class RepositoryNotFoundError(NotFoundError, FileNotFoundError):
    """A repository that the lake does not have."""

    kind = "repository_not_found"


class RefNotFoundError(NotFoundError, FileNotFoundError):
    """A ref that matches no branch, tag or commit."""

    kind = "ref_not_found"


class AmbiguousRefError(RefNotFoundError):
    """A commit id prefix that matches more than one commit."""

    kind = "ambiguous_ref"


class ObjectNotFoundError(NotFoundError, FileNotFoundError):
    """An object that a ref does not have."""

    kind = "object_not_found"


class AlreadyExistsError(SparklakeError, FileExistsError):
    """A name that is already used."""

    kind = "already_exists"
    exit_code = 14


class NamespaceInUseError(AlreadyExistsError):
    """A storage namespace that belongs, or belonged, to a repository."""

    kind = "namespace_in_use"


class ProtectedError(SparklakeError, PermissionError):
    """A change that a rule forbids on a branch, or the end of the default branch."""

    kind = "protected"
    exit_code = 11


class ReadOnlyError(SparklakeError, PermissionError):
    """A change to a read-only repository."""

    kind = "read_only"
    exit_code = 11


class ImmutableRefError(SparklakeError, PermissionError):
    """A write to a tag or a commit, which never changes."""

    kind = "immutable_ref"
    exit_code = 11
