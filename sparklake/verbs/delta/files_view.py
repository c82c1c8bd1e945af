"""Views of selected files of a Delta table in a tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sparklake.errors import ObjectNotFoundError
from sparklake.graveler.ranges import MetaRange
from sparklake.metadata.delta.actions import Fields, encode_actions
from sparklake.metadata.delta.file_names import log_key
from sparklake.metadata.delta.rewrite import rewritten_commit, to_addresses
from sparklake.metadata.delta.table_files import hashes, repeated, unlike
from sparklake.metadata.delta.union.log_sides import LogSide
from sparklake.stores.objects.addresses import spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.snapshot import snapshot_over
from sparklake.verbs.tables.view import View

if TYPE_CHECKING:
    import pyarrow as pa

_READ_PROPERTIES = "delta.columnMapping."
"""The prefix of the properties for readers. Others would require more of a log."""


@dataclass(frozen=True, slots=True)
class TableTree:
    """A table's folder in a tree. `ref` appears in errors."""

    context: Context
    ref: str
    tree: MetaRange
    folder: str

    def view(self, side: LogSide, files: Iterable[Fields]) -> View | None:
        """Return a view of the given files, named by a hash of its log, or None without a table."""
        if side.metadata is None or side.protocol is None:
            return None
        settings = (side.metadata.get("configuration") or {}).items()
        properties = {name: value for name, value in settings if name.startswith(_READ_PROPERTIES)}
        adds = ({"add": {**each, "dataChange": True}} for each in files)
        table = {"metaData": {**side.metadata, "configuration": properties}}
        log = encode_actions([{"protocol": side.protocol}, table, *adds])
        body = rewritten_commit(log, log_key(0), to_addresses(partial(_resolve, self)))
        view = View(self.context.store, hashlib.sha256(body).hexdigest(), 0)
        if not view.exists:
            view.put({log_key(view.version): body})
        return view


def _resolve(table: TableTree, relative: pa.Array) -> pa.Array:
    names = relative.dictionary_encode()
    snapshot = snapshot_over(table.context, table.ref, table.tree)
    paths = [table.folder + each for each in names.dictionary.to_pylist()]
    addresses = snapshot.lookup(paths).column("address")
    for path, address in zip(paths, addresses.to_pylist(), strict=True):
        if address is None:
            raise ObjectNotFoundError(
                f"{table.ref!r} has no object {path!r}, which the log of its table references"
            )
    uris = spark_uris(addresses.combine_chunks())
    return unlike(uris, names.dictionary, repeated([hashes(uris)])).take(names.indices)
