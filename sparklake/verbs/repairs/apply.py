"""Execution of repair steps: each write is verified before and after."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from uuid import uuid4

import msgspec
import numpy as np

from sparklake._scratch import scratch_folder
from sparklake.config import disk_root
from sparklake.errors import (
    AlreadyExistsError,
    CorruptFileError,
    MissingFileError,
    RaceLostError,
    RefNotFoundError,
    SparklakeError,
)
from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.dumps.dump import encode_refs
from sparklake.graveler.entries import AddressType, encode_entry, record_entry
from sparklake.graveler.ids import CommitId, MetaRangeId, is_generation
from sparklake.graveler.ports import BranchMove, BranchState, ObjectStore
from sparklake.graveler.records import decode_record, encode_record
from sparklake.graveler.sstable.range_files import make_range, read_range_file, table_key
from sparklake.namespace.addresses import OwnNamespace
from sparklake.namespace.layout import (
    COLLECTIONS_FOLDER,
    DATA_FOLDER,
    DUMP_SETTINGS_KEY,
    NAMESPACE_MARKER_KEY,
    REFS_MANIFEST_KEY,
)
from sparklake.stores.objects import open_object
from sparklake.stores.objects.addresses import stored_address
from sparklake.udfs.checks.content import content_problem
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import Mark
from sparklake.verbs.dumps.dump import DumpOptions, dump_refs
from sparklake.verbs.gc.runs import CollectionRun
from sparklake.verbs.refs.logged_refs import contains_commit, find_ref
from sparklake.verbs.repairs.objects import is_equal
from sparklake.verbs.repairs.plan import range_info, trees_of
from sparklake.verbs.repairs.refs import DUMP, dumped_refs, lost_ref
from sparklake.verbs.repairs.steps import RepairAction, RepairStep
from sparklake.verbs.repairs.trees import TreeSources, is_tree_file

_VERB = "repair"


@dataclass(frozen=True, slots=True)
class Repair:
    """A running repair. `kept` is the key prefix of the replaced files.

    `restored` are the commits of its steps: one step writes all missing ones.
    """

    context: Context
    sources: TreeSources
    kept: str
    restored: set[str] = field(default_factory=set)

    @property
    def store(self) -> ObjectStore:
        """The store of the repository, without a cache."""
        return self.sources.store

    def apply(self, step: RepairStep) -> None:
        """Run a step, or fail if it is impossible by now or its result is wrong."""
        {
            RepairAction.RESTORE_TREE_FILE: self._write_tree_file,
            RepairAction.REBUILD_RANGE: self._write_tree_file,
            RepairAction.REBUILD_TREE: self._write_tree_file,
            RepairAction.COPY_OBJECT: self._copy_object,
            RepairAction.REPLACE_ADDRESS: self._replace_address,
            RepairAction.RESTORE_COMMITS: self._restore_commits,
            RepairAction.FORGET_SUMMARY: self._forget_summary,
            RepairAction.RESTORE_REF: self._restore_ref,
            RepairAction.MOVE_REF: self._move_ref,
            RepairAction.WRITE_DUMP: self._write_dump,
            RepairAction.WRITE_MARK: self._write_mark,
            RepairAction.FIX_MARKER: self._fix_marker,
        }[step.action](step)

    def _keep(self, key: str) -> bool:
        """Keep the present file of a key; return whether there is one."""
        with scratch_folder(disk_root()) as scratch:
            try:
                self.store.get_to_file(key, scratch / "found")
            except MissingFileError:
                return False
            # A copy, because a hard link would change with the file.
            shutil.copyfile(scratch / "found", scratch / "copy")
            size = (scratch / "copy").stat().st_size
            place = f"{self.kept}/{key}"
            self.store.put_files_if_absent({place: scratch / "copy"})
        found = self.store.find(place)
        if found is None or found.size != size:
            raise CorruptFileError(f"the copy {place} is incomplete: nothing was replaced")
        return True

    # --- tree files -----------------------------------------------------------------------------

    def _write_tree_file(self, step: RepairStep) -> None:
        body, is_tree = self._tree_file(step)
        if body is None or not is_tree_file(step.target, body, is_tree=is_tree):
            raise MissingFileError(f"{step.source} no longer contains {step.target}")
        self._put_tree_file(step.target, body)

    def _tree_file(self, step: RepairStep) -> tuple[bytes | None, bool]:
        is_range = step.finding.tree_file == step.target and "range_" in step.finding.kind.value
        is_range = is_range or step.finding.kind.value == "record_damaged"
        if step.action is RepairAction.RESTORE_TREE_FILE:
            copy = self.sources.find_copy(step.target, is_tree=not is_range)
            return (copy[1] if copy else None), not is_range
        if step.action is RepairAction.REBUILD_TREE:
            tree = MetaRangeId(step.target)
            body = self.sources.redescribed_tree(tree) if tree in self.sources.trees else None
            body = body or self.sources.rewritten(tree, is_tree=True)
            return body or self.sources.rebuilt_tree(tree), True
        if body := self.sources.rewritten(step.target, is_tree=False):
            return body, False
        info = range_info(self.sources, step.target)
        if info is None:
            return None, False
        return self.sources.rebuilt_range(info, trees_of(self.sources, step.finding)), False

    def _put_tree_file(self, table_id: str, body: bytes) -> None:
        key = table_key(table_id)
        if self._keep(key):
            self.store.replace(key, body)
        else:
            self.store.put_if_absent(key, body)
        if self.store.get(key) != body:
            raise CorruptFileError(f"{key} was read back with other bytes: check the store")

    # --- objects ----------------------------------------------------------------------------------

    def _copy_object(self, step: RepairStep) -> None:
        finding = step.finding
        if content_problem(step.target, finding.checksum, finding.size) is None:
            return  # An earlier step, or somebody else, has restored it.
        key = step.target.removeprefix(f"{self.store.uri}/")
        source, place = open_object(step.source)
        with scratch_folder(disk_root()) as scratch:
            source.get_to_file(place, scratch / "found")
            # A copy, because a hard link to a file of another owner would change with it.
            shutil.copyfile(scratch / "found", scratch / "copy")
            if not is_equal(str(scratch / "copy"), finding):
                raise CorruptFileError(f"{step.source} no longer has the content")
            if self._keep(key):
                self.store.delete(key)
            self.store.put_files_if_absent({key: scratch / "copy"})
        if not is_equal(step.target, finding):
            raise CorruptFileError(f"{step.target} was read back with other content")

    def _replace_address(self, step: RepairStep) -> None:
        """Change a range's address of the lost object. The id proves that the range is equal."""
        finding = step.finding
        if not is_equal(step.source, finding):
            raise MissingFileError(f"{step.source} no longer has the content")
        block = read_range_file(self.store.get(table_key(step.target)), step.target)
        changed = self._moved(block, finding.subject, self._lasting(step))
        info, body = make_range(changed)
        if not is_generation(step.target, info.id):
            raise CorruptFileError(
                f"the range {step.target} was written by lakeFS, whose ids contain addresses"
            )
        self._put_tree_file(step.target, body)
        # Caches, here and elsewhere, may have the old file of the id.
        self.context.refs.collections.end_tree_sweep()

    def _lasting(self, step: RepairStep) -> str:
        """Return the address of an object that the lake or its owner keeps.

        An object in a copy of the namespace, or in the lake, is copied to `data/`: an interrupted
        collection may delete it.
        """
        copies = (f"{each}/" for each in self.sources.copies)
        if not step.source.startswith((*copies, f"{self.store.uri}/{DATA_FOLDER}")):
            return step.source
        key = f"{DATA_FOLDER}repaired-{uuid4().hex}"
        source, place = open_object(step.source)
        with scratch_folder(disk_root()) as scratch:
            source.get_to_file(place, scratch / "found")
            shutil.copyfile(scratch / "found", scratch / "copy")
            self.store.put_files_if_absent({key: scratch / "copy"})
        address = f"{self.store.uri}/{key}"
        if not is_equal(address, step.finding):
            raise CorruptFileError(f"{address} was read back with other content")
        return address

    def _moved(self, block: Block, old: str, new: str) -> Block:
        namespace = self.context.info.storage_namespace
        own = OwnNamespace(namespace)
        live = np.flatnonzero(~block.tombstones)
        entries = decode_entries(block.take(live))
        addresses = own.full_addresses(entries).to_pylist()
        moved = {int(row) for row, each in zip(live, addresses, strict=True) if each == old}
        inside = new.removeprefix(f"{namespace}/")
        is_inside = inside != new
        records = []
        for row, record in enumerate(block.records()):
            if row in moved:
                decoded = decode_record(*record)
                entry = replace(
                    record_entry(record),
                    address=inside if is_inside else stored_address(new),
                    address_type=AddressType.RELATIVE if is_inside else AddressType.FULL,
                )
                record = encode_record(decoded.key, decoded.identity, encode_entry(entry))
            records.append(record)
        return block_of_records(records)

    # --- refs -------------------------------------------------------------------------------------

    def _restore_commits(self, step: RepairStep) -> None:
        dumped, commits = dumped_refs(self.sources).refs, self.context.refs.commits
        wanted = set(step.target.split(", "))
        if wanted <= self.restored:
            return
        if not wanted <= {each.id for each in dumped.commits}:
            raise MissingFileError(f"{DUMP} has changed: check again")
        known = self.sources.moment.commits
        chosen = [each for each in dumped.commits if each.id in wanted or each.id not in known]
        for each in chosen:
            before = commits.find(each.id)
            if before is not None and before != each:
                body = msgspec.json.encode(asdict(before))
                self.store.put_if_absent(f"{self.kept}/commits/{each.id}.json", body)
        commits.restore(chosen)
        if any(commits.find(each.id) != each for each in chosen):
            raise CorruptFileError("a commit was read back with other content")
        self.restored.update(each.id for each in chosen)

    def _forget_summary(self, step: RepairStep) -> None:
        commit = self.sources.moment.commits[CommitId(step.target)]
        self.context.refs.commits.restore([commit])

    def _restore_ref(self, step: RepairStep) -> None:
        name, refs, who = step.target, self.context.refs, self.context.committer
        lost = lost_ref(self.context, self.sources.moment, dumped_refs(self.sources), name)
        if lost is None or f"{lost.source}, at {lost.named.commit_id}" != step.source:
            raise RaceLostError(f"{DUMP} or the log has changed: check again")
        found = lost.named
        if find_ref(self.context, name):
            raise AlreadyExistsError(f"the name {name!r} is in use by now")
        if refs.commits.find(found.commit_id) is None:
            raise MissingFileError(f"the commit {found.commit_id} is still missing")
        if isinstance(found, BranchState):
            refs.branches.create(name, found.commit_id, who, hidden=found.hidden)
        else:
            refs.tags.create(name, found.commit_id, who)

    def _move_ref(self, step: RepairStep) -> None:
        dumped, refs = dumped_refs(self.sources), self.context.refs
        found, state = dumped.find(step.target), refs.branches.find(step.target)
        if found is None:
            raise RefNotFoundError(f"{DUMP} no longer has {step.target!r}")
        if state is None:
            raise RefNotFoundError(f"the branch {step.target!r} no longer exists")
        expected, to = state.commit_id, CommitId(found.commit_id)
        commits = {each.id: each for each in (*dumped.refs.commits, *refs.snapshot().commits)}
        if expected in commits and not contains_commit(commits, to, expected):
            raise RaceLostError(f"the branch {step.target!r} has other commits by now: check again")
        who = self.context.committer
        refs.branches.move(BranchMove(step.target, expected, to, _VERB, who, fence=state.fence))

    def _write_dump(self, _: RepairStep) -> None:
        self._keep(REFS_MANIFEST_KEY)
        self._keep(DUMP_SETTINGS_KEY)
        files = encode_refs(self.context.refs.snapshot())[1]
        for key, body in files.items():
            # A dump keeps the tree files that exist.
            if self._keep(key) and self.store.get(key) != body:
                self.store.replace(key, body)
        dump_refs(self.context, DumpOptions(overwrite=True, check_addresses=False))

    # --- marks ------------------------------------------------------------------------------------

    def _write_mark(self, _: RepairStep) -> None:
        info = self.context.info
        try:
            mark = msgspec.json.decode(self.store.get(NAMESPACE_MARKER_KEY), type=Mark)
        except (SparklakeError, msgspec.MsgspecError, UnicodeDecodeError):
            mark = None
        if mark is not None and mark.uid != info.uid:
            raise CorruptFileError(
                f"the repository {mark.repository!r} uses this namespace now: to use it here "
                "again, delete the repository and restore its refs"
            )
        self._keep(NAMESPACE_MARKER_KEY)
        # The id of the lake only matters for a repository that was never created.
        self.store.replace(NAMESPACE_MARKER_KEY, msgspec.json.encode(Mark(info.name, info.uid, "")))

    def _fix_marker(self, step: RepairStep) -> None:
        """Write the id of the collection that died during its deletion, or remove the marker."""
        self._keep(step.target)
        open_run = max(self._marked_runs(), default=None)
        if open_run is None:
            self.store.delete(step.target)
        else:
            self.store.replace(step.target, open_run.encode())

    def _marked_runs(self) -> Iterator[str]:
        for each in self.store.list(COLLECTIONS_FOLDER):
            if each.key.endswith("/summary.json"):
                run = msgspec.json.decode(self.store.get(each.key), type=CollectionRun)
                if run.state == "marked":
                    yield run.id


@contextmanager
def no_collection(context: Context) -> Iterator[None]:
    """Exclude garbage collections, which could delete what a repair references."""
    with context.refs.collections.alone():
        yield
