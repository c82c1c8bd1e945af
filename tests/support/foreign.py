"""Repositories of other programs: dumps with foreign trees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from sparklake import Lake, Repository
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.commits import first_commit, new_commit
from sparklake.graveler.dumps.dump import encode_refs, manifest_bytes
from sparklake.graveler.entries import Entry, encode_entry, entry_identity
from sparklake.graveler.ports import BranchState, RefsSnapshot
from sparklake.graveler.records import Record, encode_record
from sparklake.graveler.sstable.range_files import make_range, tree_file_key
from sparklake.layout import REFS_MANIFEST_KEY
from sparklake.stores.objects import open_store
from tests.support.trees import write_meta_range


def foreign_record(path: str, entry: Entry) -> Record:
    """Return the record of an entry as another program may write it, without checks."""
    return encode_record(path.encode(), entry_identity(entry), encode_entry(entry))


def restored_tree(
    lake: Lake, folder: Path, records: Sequence[Record], cuts: Collection[int] = (), date: int = 0
) -> Repository:
    """Restore a repository with one tree, split into ranges after the given positions.

    The date of its commit is in unix seconds.
    """
    store = open_store(str(folder))
    bounds = [0, *sorted(each for each in cuts if 0 < each < len(records)), len(records)]
    ranges = []
    for start, stop in pairwise(bounds):
        info, file = make_range(block_of_records(records[start:stop]))
        store.put_if_absent(tree_file_key(info.id), file)
        ranges.append(info)
    first = first_commit(0)
    commit = new_commit(
        parents=[first],
        committer="ann",
        message="foreign",
        creation_date=date,
        meta_range_id=write_meta_range(store, ranges).id,
    )
    refs = RefsSnapshot((BranchState("main", commit.id),), (), (first, commit))
    manifest, files = encode_refs(refs)
    store.put_many_if_absent(files)
    store.replace(REFS_MANIFEST_KEY, manifest_bytes(manifest))
    return lake.restore_repository("foreign", str(folder), range_records=2)
