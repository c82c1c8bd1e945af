"""What is said of an object whose bytes were purged."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sparklake.errors import MissingFileError, PurgedError
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ports.registers import Purge
from sparklake.udfs.objects.rows import ObjectInfo
from sparklake.udfs.own_namespace import OwnNamespace
from sparklake.udfs.purges import Patterns, one_spelling, purge_folder
from sparklake.verbs.context import Context


def purged_error(context: Context, found: ObjectInfo, error: MissingFileError) -> MissingFileError:
    """Returns the error for an object that is gone: by a purge, where one took it."""
    own = OwnNamespace(context.info.storage_namespace)
    (address,) = one_spelling(pa.array([found.address]), own).to_pylist()
    for each in context.refs.purges.list():
        if found.path in Patterns(each.patterns) or (
            each.even_shared and _is_listed(context.store, each, address)
        ):
            why = f": {each.message}" if each.message else ""
            return PurgedError(
                f"{found.path!r} was purged from all history by {each.who} (purge {each.id}{why}); "
                "its record stays, and its bytes are gone for good",
                *(each.id, each.who, each.date),
            )
    return error


def _is_listed(store: ObjectStore, purge: Purge, address: str) -> bool:
    """Tells whether the receipt of a purge has an address."""
    for part in store.list(f"{purge_folder(purge.id)}receipt/"):
        rows = parquet.read_table(io.BytesIO(store.get(part.key)), columns=["address"])
        if pc.any(pc.equal(rows.column("address"), address)).as_py():
            return True
    return False
