"""Puts of tree files during a garbage collection: check, then put. See docs/design/048."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sparklake.errors import CollectionRunningError, CollectionStartedError, MissingFileError
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.layout import candidates_key
from sparklake.namespace.lookups import find_missing
from sparklake.namespace.markers import marked_run, open_markers

_ID_BYTES = 32


def encode_ids(table_ids: Iterable[str]) -> bytes:
    return b"".join(map(bytes.fromhex, sorted(table_ids)))


def put_tree_files(store: ObjectStore, files: Mapping[str, bytes | Path]) -> Sequence[str]:
    """Write tree files unless they exist or are being deleted; return the new keys.

    A path is the file's place on this machine, until the caller deletes it.
    """
    if not files:
        return ()
    check_kept_tree_files(store, files.keys())
    bodies = {key: each for key, each in files.items() if isinstance(each, bytes)}
    paths = {key: each for key, each in files.items() if isinstance(each, Path)}
    new_keys = store.put_many_if_absent(bodies) if bodies else ()
    return [*new_keys, *store.put_files_if_absent(paths)] if paths else new_keys


def check_kept_tree_files(store: ObjectStore, keys: Collection[str]) -> None:
    candidates = _candidates(store)
    match = next((each for each in keys if each in candidates), None)
    if match is not None:
        raise CollectionRunningError(
            f"nothing was written: a running garbage collection may delete {match}, which this "
            "operation needs. Try again after `sparklake gc run` finishes. If it was "
            "interrupted, run it again"
        )


def check_written_tree_files(store: ObjectStore, table_ids: Sequence[str]) -> None:
    """Verify that no collection deletes the given tree files."""
    keys = [tree_file_key(each) for each in table_ids]
    check_kept_tree_files(store, keys)
    missing = find_missing(store, keys)
    if missing is not None:
        raise CollectionStartedError(
            f"nothing was published: a garbage collection deleted {missing}, which this operation "
            "wrote. Try again"
        )


def _candidates(store: ObjectStore) -> Collection[str]:
    keys: set[str] = set()
    for marker in open_markers(store):
        # Without its file, a sweep has just ended, or deletes no tables.
        with suppress(MissingFileError):
            ids = store.get(candidates_key(marked_run(store, marker)))
            starts = range(0, len(ids), _ID_BYTES)
            keys.update(tree_file_key(ids[at : at + _ID_BYTES].hex()) for at in starts)
    return keys
