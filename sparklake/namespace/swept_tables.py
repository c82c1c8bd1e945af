"""Put tables into a namespace whose unnamed tables a collection may be deleting.

Ids of tables are computed from records. So a verb may write, or find, a table that a collection has
listed as unnamed and is about to delete. While the collection is open, such ids are refused.

The check comes before the put. If no collection is open then, one that begins later raises the
fence after the verb has read it, and the verb is refused when it publishes. docs/design/048 has the
proof.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from sparklake.errors import CollectionBegunError, CollectionOpenError, MissingFileError
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.sstable.range_files import table_key
from sparklake.namespace.layout import candidates_key
from sparklake.namespace.lookups import find_missing
from sparklake.namespace.markers import marked_run, open_markers

_ID_BYTES = 32


def encode_ids(table_ids: Iterable[str]) -> bytes:
    """Return ids of tables as the content of a file of candidates."""
    return b"".join(map(bytes.fromhex, sorted(table_ids)))


def put_tables(store: ObjectStore, files: Mapping[str, bytes]) -> Sequence[str]:
    """Write tables unless they exist, durably; return the keys that this call wrote.

    Raises CollectionOpenError for a table that a collection may be deleting.
    """
    if not files:
        return ()
    check_kept_tables(store, files.keys())
    return store.put_many_if_absent(files)


def check_kept_tables(store: ObjectStore, keys: Collection[str]) -> None:
    """Raise CollectionOpenError for a table that a collection may be deleting."""
    candidates = _candidates(store)
    found = next((each for each in keys if each in candidates), None)
    if found is not None:
        raise CollectionOpenError(
            f"nothing was written: a running garbage collection may delete the table {found}, "
            "which is needed again. Try again when `sparklake gc run` has ended. If it was "
            "interrupted, run it again"
        )


def check_written_tables(store: ObjectStore, table_ids: Sequence[str]) -> None:
    """Check tables that were written before the latest fence was read.

    Raises:
        CollectionOpenError: A collection may be deleting one of them.
        CollectionBegunError: A collection has deleted one of them.
    """
    keys = [table_key(each) for each in table_ids]
    check_kept_tables(store, keys)
    gone = find_missing(store, keys)
    if gone is not None:
        raise CollectionBegunError(
            f"nothing was published: a garbage collection has deleted {gone}, which this "
            "operation had written. Try again"
        )


def _candidates(store: ObjectStore) -> Collection[str]:
    """Return the keys of the tables that open collections may delete."""
    found: set[str] = set()
    for marker in open_markers(store):
        # Without its file, a sweep has just ended, or deletes no tables.
        with suppress(MissingFileError):
            ids = store.get(candidates_key(marked_run(store, marker)))
            starts = range(0, len(ids), _ID_BYTES)
            found.update(table_key(ids[at : at + _ID_BYTES].hex()) for at in starts)
    return found
