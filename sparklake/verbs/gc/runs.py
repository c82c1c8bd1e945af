"""The files of a garbage collection in its namespace: its lists and its state."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from sparklake.errors import InvalidInputError, MissingFileError, NotFoundError, StoreError
from sparklake.graveler.ids import EMPTY_META_RANGE, MetaRangeId
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.sstable.range_files import read_meta_range, table_key
from sparklake.namespace.layout import (
    SWEEP_MARKER_KEY,
    candidates_key,
    collection_folder,
    sweep_claim_key,
    sweep_marker_key,
)
from sparklake.namespace.markers import (
    ENDED,
    decide_once,
    is_run_id,
    marked_run,
    open_markers,
    sweep_ended_error,
)
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import first_write

BEGUN = "begun"
"""The state of a run that has listed nothing."""


@dataclass(frozen=True, slots=True)
class CollectionRun:
    """The progress and findings of a run.

    The state is `begun`, `listed`, `found` by a dry run, `marked` to be swept, or `swept`. `listed`
    and `garbage` are lists of objects in the run's folder, as metaranges. `bytes` is the size of
    the garbage. `commits_expired` is the number of commits that expired at the start of the run, or
    in a dry run would expire. `trees` is the number of commits that lost their trees in the same
    way. `tree_files` and `tree_file_bytes` are the deleted tree files.
    """

    id: str
    state: str
    listed: MetaRangeId
    garbage: MetaRangeId = EMPTY_META_RANGE
    objects_listed: int = 0
    objects: int = 0
    bytes: int = 0
    commits_expired: int = 0
    trees: int = 0
    tree_files: int = 0
    tree_file_bytes: int = 0
    work: str = ""
    """The folder outside the namespace that has the lists, if they are not in the run's folder."""

    def swept(self) -> CollectionRun:
        return replace(self, state="swept")


class RunFolder:
    """The folder of a run's state and lists, in the namespace but apart from versioned data.

    The lists of a new run may be in another folder, `work`.
    """

    def __init__(self, context: Context, run_id: str, work: str = "") -> None:
        if not is_run_id(run_id):
            raise InvalidInputError(
                f"{run_id!r} is not the id of a collection: copy it from the report of a run"
            )
        self.run_id = run_id
        self._context = context
        folder = collection_folder(run_id)
        self._summary = f"{folder}summary.json"
        self._usual = f"{context.info.storage_namespace}/{folder}".rstrip("/")
        self._known_work = work or None

    @property
    def _work(self) -> str:
        # Not cached_property: Python 3.11 locks it for all instances, and this reads the store.
        if self._known_work is None:
            run = self.find()
            self._known_work = run.work if run is not None else ""
        return self._known_work

    @property
    def workspace(self) -> Workspace:
        """The settings for tasks that read and write lists."""
        root = f"{self._work}/{self.run_id}" if self._work else self._usual
        # Not through the cache: these tree files are read only once.
        return Workspace(root, self._context.workspace.range_records)

    def begin(self) -> None:
        """Write the first state; raise ReadOnlyNamespaceError if that is impossible."""
        with first_write(self._context.store, "a garbage collection, even a dry run,"):
            run = self.find() or CollectionRun(self.run_id, BEGUN, EMPTY_META_RANGE)
            self.write(run)
        if self._work:
            # It creates a local folder.
            open_store(self._work).replace(f"{self.run_id}/run.json", msgspec.json.encode(run))

    def write(self, run: CollectionRun) -> None:
        """Write the state of the run, durably."""
        run = replace(run, work=self._work)
        self._context.store.replace(self._summary, msgspec.json.encode(run))

    def find(self) -> CollectionRun | None:
        try:
            body = self._context.store.get(self._summary)
        except MissingFileError:
            return None
        what = f"{self._summary} in {self._context.store.uri}"
        return decode_json(body, CollectionRun, what)

    def read(self) -> CollectionRun:
        """Return the state of the run, or raise NotFoundError."""
        run = self.find()
        if run is None or run.state == BEGUN:
            name = self._context.info.name
            raise NotFoundError(f"{name} has no garbage collection {self.run_id!r}")
        return run

    def check_unswept(self, run: CollectionRun) -> None:
        if run.state == "swept":
            raise InvalidInputError(f"the garbage collection {run.id!r} was already swept")

    def tree(self, meta_range_id: MetaRangeId) -> MetaRange:
        """Return one of the lists."""
        try:
            return read_meta_range(self.workspace.open_store(), meta_range_id)
        except StoreError as error:
            if self._work:
                why = (
                    f"the lists of the garbage collection {self.run_id} are in {self._work} (its "
                    f"--work): {error} These lists complete an interrupted collection before "
                    "another one starts: bring the place back, or run `sparklake gc run` where "
                    "it is"
                )
                error.args = (why, *error.args[1:])
            raise

    def keep_only(self, tree: MetaRange) -> None:
        """Delete all lists but one."""
        store = self.workspace.open_store()
        kept = {table_key(each) for each in (tree.id, *(info.id for info in tree.ranges))}
        for found in list(store.list(table_key(""))):
            if found.key not in kept:
                store.delete(found.key)


@dataclass(frozen=True, slots=True)
class Sweep:
    """One attempt to delete the list of a run, and the key of its marker.

    It is decided once: the attempt claims its list, or another process ends it before. A claimed
    list is deleted as a whole, by whichever process, before the marker is removed. So after a
    writer finds an object and no marker, no process, however late, deletes the object.
    """

    store: ObjectStore
    run_id: str
    marker: str

    @staticmethod
    def open(store: ObjectStore, run_id: str) -> Sweep:
        """Write the marker of a new attempt, durably."""
        sweep = Sweep(store, run_id, sweep_marker_key(uuid.uuid4().hex))
        store.replace(sweep.marker, run_id.encode())
        return sweep

    def decide(self, garbage: MetaRangeId) -> None:
        """Claim the deletion of a list; raise CollectionRunningError for an ended attempt."""
        claim = garbage.encode()
        if decide_once(self.store, sweep_claim_key(self.run_id, self.marker), claim) != claim:
            raise sweep_ended_error()

    def end(self, run: CollectionRun | None) -> MetaRangeId | None:
        """End an attempt; return its claimed list, or None.

        An earlier version claimed a list by the state of its run.
        """
        if self.marker == SWEEP_MARKER_KEY:
            return run.garbage if run is not None and run.state in ("marked", "swept") else None
        claim = decide_once(self.store, sweep_claim_key(self.run_id, self.marker), ENDED)
        return None if claim == ENDED else MetaRangeId(claim.decode())

    def close(self) -> None:
        """Release all ranges for writers."""
        self.store.delete(self.marker)
        self.store.delete(candidates_key(self.run_id))


def open_sweeps(store: ObjectStore) -> list[Sweep]:
    """Return the sweeps that may be deleting objects."""
    found = []
    for each in open_markers(store):
        with suppress(MissingFileError):  # It has just ended.
            found.append(Sweep(store, marked_run(store, each), each))
    return found
