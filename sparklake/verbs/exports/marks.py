"""The state file of an export at its destination, for the next export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from sparklake.errors import (
    InvalidInputError,
    MissingFileError,
    RaceLostError,
    StoreUnreachableError,
)
from sparklake.graveler.ids import CommitId
from sparklake.graveler.json_errors import BAD_JSON
from sparklake.graveler.ports import ObjectStore, RepositoryInfo
from sparklake.stores.objects import find_local_path
from sparklake.udfs.exports import EXPORT_MARKER_KEY

_VERSION = 1


@dataclass(frozen=True, slots=True)
class ExportMark:
    """The commit at a destination, or the possible ones.

    During an export to `commit`, each object is in the state of one of the commits `begun`, where
    None is the empty tree. `run` is unique for each export.
    """

    repository: str
    uid: str
    prefix: str
    ref: str
    commit: CommitId
    run: str
    begun: tuple[CommitId | None, ...] = ()
    version: int = _VERSION

    @property
    def origins(self) -> tuple[CommitId | None, ...]:
        """The commits with objects at the destination."""
        return self.begun or (self.commit,)


def find_mark(store: ObjectStore) -> ExportMark | None:
    """Return the state at a destination, or None. An unreadable file is an error."""
    try:
        mark = msgspec.json.decode(store.get(EXPORT_MARKER_KEY), type=ExportMark)
    except (MissingFileError, StoreUnreachableError):
        # An unreachable bucket raises an error at the first write.
        return None
    except BAD_JSON as error:
        raise _foreign(store, "cannot be read") from error
    if mark.version != _VERSION:
        raise _foreign(store, f"has the version {mark.version}")
    return mark


def check_mark(store: ObjectStore, mark: ExportMark, info: RepositoryInfo, prefix: str) -> None:
    """Raise InvalidInputError for the state of a different repository or prefix."""
    if mark.uid != info.uid:
        raise _foreign(store, f"belongs to another repository, {mark.repository!r}")
    if mark.prefix != prefix:
        raise _foreign(store, f"belongs to another prefix, {mark.prefix!r}")


def check_still_ours(store: ObjectStore, mark: ExportMark) -> None:
    """Raise RaceLostError if another export starts."""
    current = find_mark(store)
    if current is None or current.run != mark.run:
        raise RaceLostError(
            f"another export to {store.uri} has started: run one at a time, then repeat this "
            "export if needed"
        )


def is_empty(store: ObjectStore) -> bool:
    path = find_local_path(store.uri)
    if path is not None and not Path(path).exists():
        return True
    return next(iter(store.list()), None) is None


def _foreign(store: ObjectStore, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{store.uri}/{EXPORT_MARKER_KEY} {what}: choose another destination, or overwrite it"
    )
