"""Errors for paths and prefixes without objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from sparklake.errors import ObjectNotFoundError

if TYPE_CHECKING:
    from sparklake.repository import Repository

T = TypeVar("T")


def some_of(
    rows: Iterable[T], repository: Repository, ref: str, prefix: str, *, whole: bool = False
) -> Iterator[T]:
    """Return rows about a prefix, or a `whole` path. No rows and no object are an error."""
    rows = iter(rows)
    first = list(islice(rows, 1))
    if not first and prefix and not ref.endswith("$"):
        match = next(iter(repository.objects(ref, prefix)), None)
        if match is None or (whole and match.path != prefix):
            raise _not_found(repository, ref, prefix)
    return chain(first, rows)


def _not_found(repository: Repository, ref: str, path: str) -> ObjectNotFoundError:
    # Lazy import: only errors need it.
    from sparklake.graveler.refs.names import suggestion

    folder, slash, _ = path.rstrip("/").rpartition("/")
    near = (each.path for each in repository.folder(ref, folder + slash))
    return ObjectNotFoundError(f"{ref!r} has no object at {path!r}{suggestion(path, near)}")
