"""In-progress markers of garbage collections and purges."""

from __future__ import annotations

from sparklake.errors import CollectionRunningError, CorruptFileError
from sparklake.graveler.ports import ObjectStore
from sparklake.layout import OPEN_PURGES_FOLDER, SWEEP_MARKER_KEY

ENDED = b"ended"
"""The decision that a collection or a purge deletes nothing."""


def decide_once(store: ObjectStore, key: str, decision: bytes) -> bytes:
    """Store a decision under a key unless one exists; return the stored one."""
    return decision if store.put_if_absent(key, decision) else store.get(key)


def open_markers(store: ObjectStore) -> list[str]:
    return [each.key for each in store.list(SWEEP_MARKER_KEY)]


def is_sweep_open(store: ObjectStore) -> bool:
    return bool(open_markers(store))


def check_sweep(store: ObjectStore, marker: str) -> None:
    if store.find(marker) is None:
        raise sweep_ended_error()


def sweep_ended_error() -> CollectionRunningError:
    return CollectionRunningError(
        "the garbage collection stopped: it lost its connection to Postgres, and another process "
        "closed it. Run it again"
    )


def marked_run(store: ObjectStore, marker: str) -> str:
    """Return the collection id in a marker. A damaged marker raises CorruptFileError."""
    run_id = store.get(marker).decode(errors="replace")
    if not is_run_id(run_id):
        raise CorruptFileError(
            f"{marker} in {store.uri} is damaged: it contains no id of a garbage collection. "
            "Correct it with `sparklake repair`, or restore the file from a backup"
        )
    return run_id


def is_run_id(text: str) -> bool:
    return text.isascii() and text.replace("-", "").isalnum()


def open_purges(store: ObjectStore) -> list[str]:
    """Return the ids of purges that may still delete objects. Some may be dead."""
    return [each.key.removeprefix(OPEN_PURGES_FOLDER) for each in store.list(OPEN_PURGES_FOLDER)]
