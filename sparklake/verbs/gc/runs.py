"""The files of a garbage collection in its namespace: its lists and its state."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from sparklake import layout
from sparklake.errors import InvalidInputError, MissingFileError, NotFoundError, StoreError
from sparklake.graveler.ids import EMPTY_META_RANGE, MetaRangeId
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.sstable.range_files import read_meta_range, tree_file_key
from sparklake.namespace import markers
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import first_write

_BEGUN = "begun"


@dataclass(frozen=True, slots=True)
class CollectionRun:
    """The progress and findings of a run.

    The state is `begun`, `listed`, `found` (dry run), `marked` (to be swept) or `swept`. `listed`
    and `garbage` are lists of objects in the run's folder, as metaranges; `bytes` is the size of
    the garbage. In a dry run, `young` counts unreferenced objects in the grace period.
    `commits_expired` and `trees` count the commits that expire, or lose their trees, at the start
    of the run. `tree_files` and `tree_file_bytes` are the deleted tree files.
    """

    id: str
    state: str
    listed: MetaRangeId
    garbage: MetaRangeId = EMPTY_META_RANGE
    objects_listed: int = 0
    objects: int = 0
    bytes: int = 0
    young: int = 0
    commits_expired: int = 0
    trees: int = 0
    tree_files: int = 0
    tree_file_bytes: int = 0
    work: str = ""
    """The folder of the lists, if it is not the run's folder."""


class RunFolder:
    """The folder of a run's state and lists.

    The lists of a new run may be in a different folder, `work`.
    """

    def __init__(self, context: Context, run_id: str, work: str = "") -> None:
        if not markers.is_run_id(run_id):
            raise InvalidInputError(
                f"{run_id!r} is not the id of a collection: copy it from the report of a run"
            )
        self.run_id = run_id
        self._context = context
        folder = layout.collection_folder(run_id)
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
        root = f"{self._work}/{self.run_id}" if self._work else self._usual
        # Not through the cache: these tree files are read only once.
        return Workspace(root, self._context.workspace.range_records)

    def begin(self) -> None:
        with first_write(self._context.store, "a garbage collection, even a dry run,"):
            run = self.find() or CollectionRun(self.run_id, _BEGUN, EMPTY_META_RANGE)
            self.write(run)
        if self._work:
            # It creates a local folder.
            open_store(self._work).replace(f"{self.run_id}/run.json", msgspec.json.encode(run))

    def write(self, run: CollectionRun) -> None:
        run = replace(run, work=self._work)
        self._context.store.replace(self._summary, msgspec.json.encode(run))

    def find(self) -> CollectionRun | None:
        try:
            body = self._context.store.get(self._summary)
        except MissingFileError:
            return None
        return decode_json(body, CollectionRun, f"{self._summary} in {self._context.store.uri}")

    def read(self) -> CollectionRun:
        run = self.find()
        if run is None or run.state == _BEGUN:
            name = self._context.info.name
            raise NotFoundError(f"{name} has no garbage collection {self.run_id!r}")
        return run

    def tree(self, meta_range_id: MetaRangeId) -> MetaRange:
        try:
            return read_meta_range(self.workspace.open_store(), meta_range_id)
        except StoreError as error:
            if self._work:
                reason = (
                    f"the lists of the garbage collection {self.run_id} are in {self._work} (its "
                    f"--work): {error} These lists complete an interrupted collection before "
                    "another one starts: make that location available, or run `sparklake gc run` "
                    "where it is"
                )
                error.args = (reason, *error.args[1:])
            raise

    def keep_only(self, tree: MetaRange) -> None:
        store = self.workspace.open_store()
        retained = {tree_file_key(each) for each in (tree.id, *(info.id for info in tree.ranges))}
        for each in list(store.list(tree_file_key(""))):
            if each.key not in retained:
                store.delete(each.key)


@dataclass(frozen=True, slots=True)
class Sweep:
    """One attempt to delete the list of a run.

    The attempt claims its list once, unless another process ends it first. A claimed list is
    deleted completely before the marker is removed. Therefore, once a writer finds an object and no
    marker, no process deletes the object, however late.
    """

    store: ObjectStore
    run_id: str
    marker: str

    @staticmethod
    def open(store: ObjectStore, run_id: str) -> Sweep:
        """Write the marker of a new attempt, durably."""
        sweep = Sweep(store, run_id, layout.sweep_marker_key(uuid.uuid4().hex))
        store.replace(sweep.marker, run_id.encode())
        return sweep

    def decide(self, garbage: MetaRangeId) -> None:
        """Claim the deletion of a list, unless the attempt is closed."""
        if self._decide(garbage.encode()) != garbage.encode():
            raise markers.sweep_ended_error()

    def end(self, run: CollectionRun | None) -> MetaRangeId | None:
        """End an attempt; return its claimed list, or None."""
        if self.marker == layout.SWEEP_MARKER_KEY:  # Earlier versions claimed by the run's state.
            return run.garbage if run is not None and run.state in ("marked", "swept") else None
        claim = self._decide(markers.ENDED)
        return None if claim == markers.ENDED else MetaRangeId(claim.decode())

    def _decide(self, claim: bytes) -> bytes:
        key = layout.sweep_claim_key(self.run_id, self.marker)
        return markers.decide_once(self.store, key, claim)

    def close(self) -> None:
        """Release all ranges to writers."""
        self.store.delete(self.marker)
        self.store.delete(layout.candidates_key(self.run_id))


def open_sweeps(store: ObjectStore) -> list[Sweep]:
    """Return the sweeps that may be running."""
    sweeps = []
    for each in markers.open_markers(store):
        with suppress(MissingFileError):  # It has just ended.
            sweeps.append(Sweep(store, markers.marked_run(store, each), each))
    return sweeps
