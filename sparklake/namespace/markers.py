"""In-progress markers of garbage collections and purges."""

from __future__ import annotations

from sparklake.errors import CollectionOpenError, CorruptFileError
from sparklake.graveler.ports import ObjectStore

COLLECTIONS_FOLDER = "_sparklake/gc"


MARKER_KEY = f"{COLLECTIONS_FOLDER}/open"
"""The marker of an open sweep of an earlier version, and the key prefix of all markers."""


COLLECTED_KEY = f"{COLLECTIONS_FOLDER}/collected.json"
"""The ids of the commits whose trees were collected. A restore of a dump reads them."""


PURGES_FOLDER = "_sparklake/purges"


_OPEN_PURGES = f"{PURGES_FOLDER}/open/"


def marker_key(sweep_id: str) -> str:
    """Return the key of the marker of an open sweep.

    A collection writes it before it looks for named objects, and removes it after its last
    deletion. No other sweep has the same key, so that a late removal ends only its own.
    """
    return f"{MARKER_KEY}-{sweep_id}"


def open_markers(store: ObjectStore) -> list[str]:
    """Return the keys of the markers of open sweeps."""
    return [each.key for each in store.list(MARKER_KEY)]


def is_sweep_open(store: ObjectStore) -> bool:
    """Return whether a collection may be deleting objects."""
    return bool(open_markers(store))


def check_sweep(store: ObjectStore, marker: str) -> None:
    """Raise CollectionOpenError if another process has ended the sweep of a marker."""
    if store.find(marker) is None:
        raise sweep_ended_error()


def sweep_ended_error() -> CollectionOpenError:
    """Return the error of a collection that another process has taken over."""
    return CollectionOpenError(
        "the garbage collection stopped: another one has ended it, after this one had lost its "
        "connection to Postgres. Run it again"
    )


def marked_run(store: ObjectStore, marker: str) -> str:
    """Return the id of the collection that a marker names; raise MissingFileError.

    Raises CorruptFileError for a damaged marker: nobody knows what that collection may delete.
    """
    run_id = store.get(marker).decode(errors="replace")
    if not is_run_id(run_id):
        raise CorruptFileError(
            f"{marker} in {store.uri} is damaged: it names no garbage collection. Correct it "
            "with `sparklake repair`, or restore the file from a backup"
        )
    return run_id


def is_run_id(text: str) -> bool:
    """Return whether a text can be the id of a collection."""
    return text.isascii() and text.replace("-", "").isalnum()


def open_purge_key(purge_id: str) -> str:
    """Return the key of the marker of an open purge.

    A purge writes it before it looks for named objects, and removes it after its last deletion.
    """
    return f"{_OPEN_PURGES}{purge_id}"


def open_purges(store: ObjectStore) -> list[str]:
    """Return the ids of the purges that may be deleting objects, or may have died meanwhile."""
    return [each.key.removeprefix(_OPEN_PURGES) for each in store.list(_OPEN_PURGES)]
