"""What is kept of a garbage collection in its namespace: its lists, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from sparklake.errors import InvalidInputError, MissingFileError, NotFoundError
from sparklake.graveler.ids import EMPTY_META_RANGE, MetaRangeId
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.sstable.store import read_meta_range, table_key
from sparklake.udfs.adopted_ranges import COLLECTIONS_FOLDER, MARKER_KEY
from sparklake.udfs.workspace import Workspace
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import first_write

BEGUN = "begun"
"""The state of a run that has listed nothing."""


@dataclass(frozen=True, slots=True)
class CollectionRun:
    """Says of a run how far it has come, and what it has found.

    Its state is `begun`, `listed`, `found` by a dry run, `marked` to be swept, or `swept`. `listed`
    and `garbage` are lists of objects in its folder, as metaranges; `bytes` is of garbage.
    `commits_expired` are those that did so when it began, or would by a dry run.
    """

    id: str
    state: str
    listed: MetaRangeId
    garbage: MetaRangeId = EMPTY_META_RANGE
    objects_listed: int = 0
    objects: int = 0
    bytes: int = 0
    commits_expired: int = 0

    def swept(self) -> CollectionRun:
        """Return what is said when all of it is gone."""
        return replace(self, state="swept")


class RunFolder:
    """Where a run keeps its lists, below the namespace and apart from all that is versioned."""

    def __init__(self, context: Context, run_id: str) -> None:
        if not run_id.replace("-", "").isalnum():
            raise InvalidInputError(f"{run_id!r} is no id of a collection: a report says it")
        self.run_id = run_id
        self._context = context
        folder = f"{COLLECTIONS_FOLDER}/{run_id}"
        self._summary = f"{folder}/summary.json"
        root = f"{context.info.storage_namespace}/{folder}"
        # Not through the cache of tables: nobody reads these twice.
        self.workspace = Workspace(root, context.workspace.range_records)

    def begin(self) -> None:
        """Say that the run begins; raise ReadOnlyNamespaceError where it could keep no list."""
        with first_write(self._context.store, "A garbage collection, also a dry run,"):
            self.write(self.find() or CollectionRun(self.run_id, BEGUN, EMPTY_META_RANGE))

    def write(self, run: CollectionRun) -> None:
        """Says how far the run has come, durable on return."""
        self._context.store.replace(self._summary, msgspec.json.encode(run))

    def find(self) -> CollectionRun | None:
        """Return how far the run has come; None where nothing was said."""
        try:
            return msgspec.json.decode(self._context.store.get(self._summary), type=CollectionRun)
        except MissingFileError:
            return None

    def read(self) -> CollectionRun:
        """Return how far the run has come; raise NotFoundError."""
        run = self.find()
        if run is None or run.state == BEGUN:
            name = self._context.info.name
            raise NotFoundError(f"{name} has no garbage collection {self.run_id!r}")
        return run

    def check_unswept(self, run: CollectionRun) -> None:
        """Raise InvalidInputError for a run that has nothing left to sweep."""
        if run.state == "swept":
            raise InvalidInputError(f"the garbage collection {run.id!r} is swept already")

    def tree(self, meta_range_id: MetaRangeId) -> MetaRange:
        """Return one of the lists."""
        return read_meta_range(self.workspace.open_store(), meta_range_id)

    def keep_only(self, tree: MetaRange) -> None:
        """Delete all lists but one."""
        store = self.workspace.open_store()
        kept = {table_key(each) for each in (tree.id, *(info.id for info in tree.ranges))}
        for found in list(store.list(table_key(""))):
            if found.key not in kept:
                store.delete(found.key)


def find_open(store: ObjectStore) -> str | None:
    """Return the id of the run that may be taking objects."""
    try:
        return store.get(MARKER_KEY).decode()
    except MissingFileError:
        return None


def set_open(store: ObjectStore, run_id: str | None) -> None:
    """Says which run may be taking objects, or that none is; durable on return."""
    if run_id is None:
        store.delete(MARKER_KEY)
    else:
        store.replace(MARKER_KEY, run_id.encode())
