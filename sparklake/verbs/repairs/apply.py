"""Execution of repair steps. Each write is verified before and after."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import msgspec
import numpy as np

from sparklake import errors, layout
from sparklake._scratch import scratch_folder
from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.dumps.dump import encode_refs
from sparklake.graveler.entries import AddressType, encode_entry, record_entry
from sparklake.graveler.ids import CommitId, MetaRangeId, is_generation
from sparklake.graveler.ports import BranchMove, BranchState, ObjectStore
from sparklake.graveler.records import decode_record, encode_record
from sparklake.graveler.sstable.range_files import (
    make_range,
    read_range_file,
    tree_file,
    tree_file_key,
)
from sparklake.namespace.addresses import OwnNamespace
from sparklake.stores.objects import open_object
from sparklake.stores.objects.addresses import stored_address
from sparklake.udfs.checks.content import content_problem
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import OwnershipMarker
from sparklake.verbs.dumps.dump import DumpOptions, dump_refs
from sparklake.verbs.gc.runs import CollectionRun
from sparklake.verbs.refs.logged_refs import contains_commit, find_ref
from sparklake.verbs.repairs.objects import is_equal
from sparklake.verbs.repairs.plan import range_info, trees_of
from sparklake.verbs.repairs.refs import DUMP, dumped_refs, lost_ref
from sparklake.verbs.repairs.steps import RepairAction, RepairStep
from sparklake.verbs.repairs.trees import TreeSources, is_tree_file


@dataclass(frozen=True, slots=True)
class Repair:
    """A running repair. `backups` is the key prefix of replaced files."""

    context: Context
    sources: TreeSources
    backups: str
    restored: set[str] = field(default_factory=set)

    @property
    def store(self) -> ObjectStore:
        return self.sources.store

    def apply(self, step: RepairStep) -> None:
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
        """Back up the file of a key; return whether there is one."""
        backup = f"{self.backups}/{key}"
        with ExitStack() as stack:
            try:
                copy = stack.enter_context(_local_copy(self.store, key))
            except errors.MissingFileError:
                return False
            size = copy.stat().st_size
            self.store.put_files_if_absent({backup: copy})
        stored = self.store.find(backup)
        if stored is None or stored.size != size:
            raise errors.CorruptFileError(f"the copy {backup} is incomplete: nothing was replaced")
        return True

    # --- tree files -----------------------------------------------------------------------------

    def _write_tree_file(self, step: RepairStep) -> None:
        body, is_tree = self._tree_file(step)
        if body is None or not is_tree_file(step.target, body, is_tree=is_tree):
            raise errors.MissingFileError(f"{step.source} no longer contains {step.target}")
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
        key = tree_file_key(table_id)
        if self._keep(key):
            self.store.replace(key, body)
        else:
            self.store.put_if_absent(key, body)
        if self.store.get(key) != body:
            raise errors.CorruptFileError(
                f"{key} was read back with different bytes: check the store"
            )

    # --- objects ----------------------------------------------------------------------------------

    def _copy_object(self, step: RepairStep) -> None:
        finding = step.finding
        if content_problem(step.target, finding.checksum, finding.size) is None:
            return  # An earlier step, or somebody else, has restored it.
        key = step.target.removeprefix(f"{self.store.uri}/")
        with _local_copy(*open_object(step.source)) as copy:
            if not is_equal(str(copy), finding):
                raise errors.CorruptFileError(f"{step.source} no longer has the content")
            if self._keep(key):
                self.store.delete(key)
            self.store.put_files_if_absent({key: copy})
        if not is_equal(step.target, finding):
            raise errors.CorruptFileError(f"{step.target} was read back with different content")

    def _replace_address(self, step: RepairStep) -> None:
        """Change the address of the lost object in a range.

        The id proves that the range is otherwise equal.
        """
        finding = step.finding
        if not is_equal(step.source, finding):
            raise errors.MissingFileError(f"{step.source} no longer has the content")
        block = read_range_file(tree_file(self.store, step.target), step.target)
        changed = self._with_address(block, finding.subject, self._permanent_address(step))
        info, body = make_range(changed)
        if not is_generation(step.target, info.id):
            raise errors.CorruptFileError(
                f"the range {step.target} was written by lakeFS, whose ids contain addresses"
            )
        self._put_tree_file(step.target, body)
        # Caches, here and elsewhere, may have the old file of the id.
        self.context.refs.collections.end_tree_sweep()

    def _permanent_address(self, step: RepairStep) -> str:
        # An interrupted collection may delete an object of the lake.
        copies = (f"{each}/" for each in self.sources.copies)
        if not step.source.startswith((*copies, f"{self.store.uri}/{layout.DATA_FOLDER}")):
            return step.source
        key = f"{layout.DATA_FOLDER}repaired-{uuid4().hex}"
        with _local_copy(*open_object(step.source)) as copy:
            self.store.put_files_if_absent({key: copy})
        address = f"{self.store.uri}/{key}"
        if not is_equal(address, step.finding):
            raise errors.CorruptFileError(f"{address} was read back with different content")
        return address

    def _with_address(self, block: Block, old: str, new: str) -> Block:
        namespace = self.context.info.storage_namespace
        live = np.flatnonzero(~block.tombstones)
        entries = decode_entries(block.take(live))
        addresses = OwnNamespace(namespace).full_addresses(entries).to_pylist()
        matches = [int(row) for row, each in zip(live, addresses, strict=True) if each == old]
        relative = new.removeprefix(f"{namespace}/")
        if relative != new:
            address, address_type = relative, AddressType.RELATIVE
        else:
            address, address_type = stored_address(new), AddressType.FULL
        records = list(block.records())
        for row in matches:
            record = decode_record(*records[row])
            entry = record_entry(records[row])
            entry = replace(entry, address=address, address_type=address_type)
            records[row] = encode_record(record.key, record.identity, encode_entry(entry))
        return block_of_records(records)

    # --- refs -------------------------------------------------------------------------------------

    def _restore_commits(self, step: RepairStep) -> None:
        dumped, commits = dumped_refs(self.sources).refs, self.context.refs.commits
        ids = set(step.target.split(", "))
        if ids <= self.restored:
            return  # The first step writes all missing commits.
        if not ids <= {each.id for each in dumped.commits}:
            raise errors.MissingFileError(f"{DUMP} has changed: check again")
        present = self.sources.moment.commits
        selected = [each for each in dumped.commits if each.id in ids or each.id not in present]
        for each in selected:
            before = commits.find(each.id)
            if before is not None and before != each:
                body = msgspec.json.encode(asdict(before))
                self.store.put_if_absent(f"{self.backups}/commits/{each.id}.json", body)
        commits.restore(selected)
        if any(commits.find(each.id) != each for each in selected):
            raise errors.CorruptFileError("a commit was read back with different content")
        self.restored.update(each.id for each in selected)

    def _forget_summary(self, step: RepairStep) -> None:
        commit = self.sources.moment.commits[CommitId(step.target)]
        self.context.refs.commits.restore([commit])

    def _restore_ref(self, step: RepairStep) -> None:
        name, refs, who = step.target, self.context.refs, self.context.committer
        lost = lost_ref(self.context, self.sources.moment, dumped_refs(self.sources), name)
        if lost is None or lost.text != step.source:
            raise errors.RaceLostError(f"{DUMP} or the log has changed: check again")
        ref = lost.ref
        if find_ref(self.context, name):
            raise errors.AlreadyExistsError(f"the name {name!r} is now in use")
        if refs.commits.find(ref.commit_id) is None:
            raise errors.MissingFileError(f"the commit {ref.commit_id} is still missing")
        if isinstance(ref, BranchState):
            refs.branches.create(name, ref.commit_id, who, hidden=ref.hidden)
        else:
            refs.tags.create(ref, who)

    def _move_ref(self, step: RepairStep) -> None:
        dumped, refs = dumped_refs(self.sources), self.context.refs
        ref, state = dumped.find(step.target), refs.branches.find(step.target)
        if ref is None:
            raise errors.RefNotFoundError(f"{DUMP} no longer has {step.target!r}")
        if state is None:
            raise errors.RefNotFoundError(f"the branch {step.target!r} no longer exists")
        expected, to = state.commit_id, CommitId(ref.commit_id)
        commits = {each.id: each for each in (*dumped.refs.commits, *refs.snapshot().commits)}
        if expected in commits and not contains_commit(commits, to, expected):
            raise errors.RaceLostError(
                f"the branch {step.target!r} now has other commits: check again"
            )
        who = self.context.committer
        refs.branches.move(BranchMove(step.target, expected, to, "repair", who, fence=state.fence))

    def _write_dump(self, _: RepairStep) -> None:
        self._keep(layout.REFS_MANIFEST_KEY)
        self._keep(layout.DUMP_SETTINGS_KEY)
        files = encode_refs(self.context.refs.snapshot())[1]
        for key, body in files.items():
            # A dump keeps the tree files that exist.
            if self._keep(key) and self.store.get(key) != body:
                self.store.replace(key, body)
        dump_refs(self.context, DumpOptions(overwrite=True, check_addresses=False))

    # --- markers ----------------------------------------------------------------------------------

    def _write_mark(self, _: RepairStep) -> None:
        info = self.context.info
        try:
            mark = msgspec.json.decode(
                self.store.get(layout.NAMESPACE_MARKER_KEY), type=OwnershipMarker
            )
        except (errors.SparklakeError, msgspec.MsgspecError, UnicodeDecodeError):
            mark = None
        if mark is not None and mark.uid != info.uid:
            raise errors.CorruptFileError(
                f"the repository {mark.repository!r} uses this namespace now: to use it here "
                "again, delete the repository and restore its refs"
            )
        self._keep(layout.NAMESPACE_MARKER_KEY)
        # The id of the lake only matters for a repository that was never created.
        self.store.replace(
            layout.NAMESPACE_MARKER_KEY,
            msgspec.json.encode(OwnershipMarker(info.name, info.uid, "")),
        )

    def _fix_marker(self, step: RepairStep) -> None:
        """Write the id of the interrupted collection, or remove the marker."""
        self._keep(step.target)
        runs = [
            msgspec.json.decode(self.store.get(each.key), type=CollectionRun)
            for each in self.store.list(layout.COLLECTIONS_FOLDER)
            if each.key.endswith("/summary.json")
        ]
        latest = max((each.id for each in runs if each.state == "marked"), default=None)
        if latest is None:
            self.store.delete(step.target)
        else:
            self.store.replace(step.target, latest.encode())


@contextmanager
def _local_copy(store: ObjectStore, key: str) -> Iterator[Path]:
    """Yield a copy of a file. A hard link, as created by stores, would change with the file."""
    with scratch_folder() as scratch:
        store.get_to_file(key, scratch / "link")
        yield Path(shutil.copyfile(scratch / "link", scratch / "copy"))
